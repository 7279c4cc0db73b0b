// A device plugin for example.com/gpu: its devices, their health, and what a container gets of them. kubelet.go has the
// rest, and calls resource, devices and allocate.
package main

import (
	"os"
	"slices"
	"strings"

	pb "example.com/my-project/deviceplugin"
)

const resource = "example.com/gpu"

var names = []string{"device-0", "device-1"}

// devices returns all devices, with the same ids for the same hardware. The kubelet is sent each change of the list.
// Ask your hardware here, quickly: this is called five times a second. The example reads a file.
func devices() []*pb.Device {
	text, _ := os.ReadFile(setting("BROKEN_DEVICES", "broken-devices.txt"))
	broken := strings.Fields(string(text))
	var found []*pb.Device
	for _, name := range names {
		health := "Healthy"
		if slices.Contains(broken, name) {
			health = "Unhealthy"
		}
		found = append(found, &pb.Device{ID: name, Health: health})
	}
	return found
}

// allocate returns what a container needs to use these devices: Envs, Mounts, Devices, Annotations or CdiDevices.
// Have no lasting effects: the pod may still be rejected.
func allocate(ids []string) (*pb.ContainerAllocateResponse, error) {
	return &pb.ContainerAllocateResponse{Envs: map[string]string{"DEVICES": strings.Join(ids, ",")}}, nil
}
