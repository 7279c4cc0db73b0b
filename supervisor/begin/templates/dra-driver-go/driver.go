// A DRA driver for gpu.example.com: it publishes the node's devices and prepares those of claims by CDI files.
package main

import (
	"context"
	"encoding/json"
	"fmt"
	"log"
	"net"
	"net/http"
	"os"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"
	"syscall"

	pb "example.com/my-project/dra"
	"example.com/my-project/registration"
	"google.golang.org/grpc"
)

const driverName = "gpu.example.com"

var devices = []string{"device-0", "device-1"}

// driver prepares claims; the CDI files are its only state, so a restarted driver goes on with them.
type driver struct {
	pb.UnimplementedDRAPluginServer
	api       *api
	node, cdi string
}

type result struct{ Driver, Pool, Device, Request string }

// NodePrepareResources is called before the first container of a pod starts. A claim that fails affects no other.
func (d *driver) NodePrepareResources(
	ctx context.Context, request *pb.NodePrepareResourcesRequest,
) (*pb.NodePrepareResourcesResponse, error) {
	answer := &pb.NodePrepareResourcesResponse{Claims: map[string]*pb.NodePrepareResourceResponse{}}
	for _, claim := range request.Claims {
		answer.Claims[claim.Uid] = &pb.NodePrepareResourceResponse{}
		if prepared, err := d.prepare(ctx, claim); err != nil {
			answer.Claims[claim.Uid].Error = err.Error()
		} else {
			answer.Claims[claim.Uid].Devices = prepared
		}
	}
	return answer, nil
}

// prepare may be asked for the same claim again: the answer is the same.
func (d *driver) prepare(ctx context.Context, claim *pb.Claim) ([]*pb.Device, error) {
	results, err := d.allocated(ctx, claim)
	if err != nil {
		return nil, err
	}
	var prepared []*pb.Device
	edits := map[string]any{}
	for _, each := range results {
		name := claim.Uid + "-" + each.Device
		variable := strings.ToUpper(strings.ReplaceAll(each.Device, "-", "_")) + "=" + claim.Uid
		edits[name] = map[string]any{"env": []string{variable}} // real devices need deviceNodes and mounts
		request, _, _ := strings.Cut(each.Request, "/")
		prepared = append(prepared, &pb.Device{
			RequestNames: []string{request},
			PoolName:     each.Pool,
			DeviceName:   each.Device,
			CdiDeviceIds: []string{driverName + "/device=" + name},
		})
	}
	return prepared, d.write(claim.Uid, edits)
}

// allocated returns the devices of this driver that the scheduler has given to the claim.
func (d *driver) allocated(ctx context.Context, claim *pb.Claim) ([]result, error) {
	var found struct {
		Metadata metadata
		Status   struct {
			Allocation struct{ Devices struct{ Results []result } }
		}
	}
	path := "/apis/resource.k8s.io/v1/namespaces/" + claim.Namespace + "/resourceclaims/" + claim.Name
	if err := d.api.call(ctx, http.MethodGet, path, nil, &found); err != nil {
		return nil, err
	}
	if found.Metadata.UID != claim.Uid {
		return nil, fmt.Errorf("%s/%s is another claim now", claim.Namespace, claim.Name)
	}
	var mine []result
	for _, each := range found.Status.Allocation.Devices.Results {
		if each.Driver != driverName {
			continue
		}
		if each.Pool != d.node || !slices.Contains(devices, each.Device) {
			return nil, fmt.Errorf("there is no device %s/%s", each.Pool, each.Device)
		}
		mine = append(mine, each)
	}
	if mine == nil {
		return nil, fmt.Errorf("%s/%s is allocated no device of this driver", claim.Namespace, claim.Name)
	}
	return mine, nil
}

func (d *driver) file(uid string) string { return filepath.Join(d.cdi, driverName+"-"+uid+".json") }

// write makes the file from which the runtime reads what to change in a container, whole or not at all.
func (d *driver) write(uid string, edits map[string]any) error {
	var declared []any
	for name, edit := range edits {
		declared = append(declared, map[string]any{"name": name, "containerEdits": edit})
	}
	text, err := json.Marshal(map[string]any{"cdiVersion": "0.5.0", "kind": driverName + "/device", "devices": declared})
	if err != nil {
		return err
	}
	temporary, err := os.CreateTemp(d.cdi, ".*.tmp")
	if err != nil {
		return err
	}
	defer os.Remove(temporary.Name())
	_, err = temporary.Write(text)
	if closed := temporary.Close(); err != nil || closed != nil {
		return fmt.Errorf("%s: %v %v", temporary.Name(), err, closed)
	}
	return os.Rename(temporary.Name(), d.file(uid))
}

// NodeUnprepareResources is called after the last pod of a claim has ended. An unknown claim is a success.
func (d *driver) NodeUnprepareResources(
	_ context.Context, request *pb.NodeUnprepareResourcesRequest,
) (*pb.NodeUnprepareResourcesResponse, error) {
	answer := &pb.NodeUnprepareResourcesResponse{Claims: map[string]*pb.NodeUnprepareResourceResponse{}}
	for _, claim := range request.Claims {
		answer.Claims[claim.Uid] = &pb.NodeUnprepareResourceResponse{}
		if err := os.Remove(d.file(claim.Uid)); err != nil && !os.IsNotExist(err) {
			answer.Claims[claim.Uid].Error = err.Error()
		}
	}
	return answer, nil
}

// registrar is called by the kubelet on a socket in plugins_registry/.
type registrar struct {
	registration.UnimplementedRegistrationServer
	socket string
}

func (r registrar) GetInfo(context.Context, *registration.InfoRequest) (*registration.PluginInfo, error) {
	return &registration.PluginInfo{
		Type: "DRAPlugin", Name: driverName, Endpoint: r.socket, SupportedVersions: []string{"v1.DRAPlugin"},
	}, nil
}

func (registrar) NotifyRegistrationStatus(
	_ context.Context, status *registration.RegistrationStatus,
) (*registration.RegistrationStatusResponse, error) {
	log.Printf("registered: %t %s", status.PluginRegistered, status.Error)
	return &registration.RegistrationStatusResponse{}, nil
}

// serve listens on a socket; one that an earlier process left is replaced.
func serve(path string, server *grpc.Server) error {
	if err := os.MkdirAll(filepath.Dir(path), 0o750); err != nil {
		return err
	}
	if err := os.Remove(path); err != nil && !os.IsNotExist(err) {
		return err
	}
	listener, err := net.Listen("unix", path)
	if err == nil {
		go func() { _ = server.Serve(listener) }()
	}
	return err
}

// run serves until the context ends. The service first: the kubelet connects to it once it has found the other socket.
func run(ctx context.Context) error {
	a, err := connect()
	if err != nil {
		return err
	}
	kubelet := setting("NODEPLANE_KUBELET_DIR", "/var/lib/kubelet")
	d := &driver{api: a, node: os.Getenv("NODE_NAME"), cdi: setting("CDI_ROOT", "/var/run/cdi")}
	if err := os.MkdirAll(d.cdi, 0o755); err != nil {
		return err
	}
	socket, service, registry := filepath.Join(kubelet, "plugins", driverName, "dra.sock"), grpc.NewServer(), grpc.NewServer()
	pb.RegisterDRAPluginServer(service, d)
	registration.RegisterRegistrationServer(registry, registrar{socket: socket})
	defer service.Stop()
	defer registry.Stop() // first: no new call arrives
	if err := serve(socket, service); err != nil {
		return err
	}
	if err := serve(filepath.Join(kubelet, "plugins_registry", driverName+"-reg.sock"), registry); err != nil {
		return err
	}
	keepPublished(ctx, a, d.node)
	return nil
}

func setting(name, otherwise string) string {
	if value := os.Getenv(name); value != "" {
		return value
	}
	return otherwise
}

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	defer stop()
	if err := run(ctx); err != nil {
		log.Fatal(err)
	}
}
