// A DRA driver: it publishes the node's devices and prepares those of claims by CDI files. Kubernetes' kubeletplugin
// serves, registers, reads the claims and keeps the ResourceSlices in the API.
package main

import (
	"context"
	"encoding/json"
	"fmt"
	"log"
	"os"
	"os/signal"
	"path/filepath"
	"slices"
	"syscall"

	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/dynamic-resource-allocation/kubeletplugin"
	"k8s.io/dynamic-resource-allocation/resourceslice"
)

const driverName = "gpu.example.com"

var devices = []string{"device-0", "device-1"}

// Driver prepares claims; the CDI files are its only state, so a restarted driver goes on with them.
type Driver struct{ CDI string }

func (d *Driver) file(uid types.UID) string {
	return filepath.Join(d.CDI, driverName+"-"+string(uid)+".json")
}

// PrepareResourceClaims is called before the first container of a pod starts, and again after restarts.
func (d *Driver) PrepareResourceClaims(_ context.Context, claims []*resourceapi.ResourceClaim) (map[types.UID]kubeletplugin.PrepareResult, error) {
	answer := map[types.UID]kubeletplugin.PrepareResult{}
	for _, claim := range claims {
		prepared, err := d.prepare(claim)
		answer[claim.UID] = kubeletplugin.PrepareResult{Devices: prepared, Err: err}
	}
	return answer, nil
}

func (d *Driver) prepare(claim *resourceapi.ResourceClaim) ([]kubeletplugin.Device, error) {
	var prepared []kubeletplugin.Device
	edits := []map[string]any{}
	for _, result := range claim.Status.Allocation.Devices.Results {
		if result.Driver != driverName {
			continue
		}
		if !slices.Contains(devices, result.Device) {
			return nil, fmt.Errorf("there is no device %s", result.Device)
		}
		name := string(claim.UID) + "-" + result.Device
		edit := map[string]any{"env": []string{"DEVICE=" + result.Device}} // real devices need deviceNodes and mounts
		edits = append(edits, map[string]any{"name": name, "containerEdits": edit})
		prepared = append(prepared, kubeletplugin.Device{
			Requests:     []string{result.Request},
			PoolName:     result.Pool,
			DeviceName:   result.Device,
			CDIDeviceIDs: []string{driverName + "/device=" + name},
		})
	}
	return prepared, d.write(claim.UID, map[string]any{"cdiVersion": "0.5.0", "kind": driverName + "/device", "devices": edits})
}

func (d *Driver) write(uid types.UID, spec map[string]any) error {
	text, err := json.Marshal(spec)
	if err != nil {
		return err
	}
	temporary := d.file(uid) + ".tmp"
	if err := os.WriteFile(temporary, text, 0o644); err != nil {
		return err
	}
	return os.Rename(temporary, d.file(uid))
}

// UnprepareResourceClaims is called after the last pod of a claim has ended; an unknown claim is a success.
func (d *Driver) UnprepareResourceClaims(_ context.Context, claims []kubeletplugin.NamespacedObject) (map[types.UID]error, error) {
	answer := map[types.UID]error{}
	for _, claim := range claims {
		err := os.Remove(d.file(claim.UID))
		if os.IsNotExist(err) {
			err = nil
		}
		answer[claim.UID] = err
	}
	return answer, nil
}

// HandleError logs what goes wrong in the background.
func (d *Driver) HandleError(_ context.Context, err error, msg string) {
	log.Printf("%s: %v", msg, err)
}

func variable(name, otherwise string) string {
	if value := os.Getenv(name); value != "" {
		return value
	}
	return otherwise
}

func run(ctx context.Context) error {
	config, err := clientcmd.BuildConfigFromFlags("", os.Getenv("KUBECONFIG")) // without one: the pod's
	if err != nil {
		return err
	}
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		return err
	}
	kubelet, node := variable("NODEPLANE_KUBELET_DIR", "/var/lib/kubelet"), os.Getenv("NODE_NAME")
	driver, data := &Driver{CDI: variable("CDI_ROOT", "/var/run/cdi")}, filepath.Join(kubelet, "plugins", driverName)
	for _, directory := range []string{driver.CDI, data} {
		if err := os.MkdirAll(directory, 0o750); err != nil {
			return err
		}
	}
	helper, err := kubeletplugin.Start(ctx, driver,
		kubeletplugin.KubeClient(client),
		kubeletplugin.NodeName(node),
		kubeletplugin.DriverName(driverName),
		kubeletplugin.RegistrarDirectoryPath(filepath.Join(kubelet, "plugins_registry")),
		kubeletplugin.PluginDataDirectoryPath(data),
	)
	if err != nil {
		return err
	}
	defer helper.Stop()
	published := make([]resourceapi.Device, len(devices))
	for i, name := range devices {
		published[i] = resourceapi.Device{Name: name}
	}
	pool := resourceslice.Pool{Slices: []resourceslice.Slice{{Devices: published}}}
	pools := map[string]resourceslice.Pool{node: pool}
	if err := helper.PublishResources(ctx, resourceslice.DriverResources{Pools: pools}); err != nil {
		return err
	}
	<-ctx.Done()
	return nil
}

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	defer stop()
	if err := run(ctx); err != nil {
		log.Fatal(err)
	}
}
