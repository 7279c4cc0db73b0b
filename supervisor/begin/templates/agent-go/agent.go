// An agent that prints which pod holds which device, and every change. kubelet.go has the rest, and calls devices and
// report.
package main

import (
	"fmt"
	"sort"

	pb "example.com/my-project/podresources"
)

// devices returns what the agent needs of a pod: each change of it is reported. A kubelet lists in any order, so sort.
func devices(pod *pb.PodResources) []string {
	found := []string{}
	for _, container := range pod.Containers {
		for _, entry := range container.Devices {
			for _, id := range entry.DeviceIds {
				found = append(found, entry.ResourceName+"="+id)
			}
		}
		for _, claim := range container.DynamicResources {
			for _, each := range claim.ClaimResources {
				found = append(found, each.DriverName+"/"+each.PoolName+"/"+each.DeviceName)
			}
		}
	}
	sort.Strings(found)
	return found
}

// report does what the agent is for, once for each pod that is ADDED, UPDATED or DELETED; the last has no devices.
func report(action, pod string, devices []string) {
	fmt.Println(action, pod, devices)
}
