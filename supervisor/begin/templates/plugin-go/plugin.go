// A device plugin for example.com/gpu: it serves, registers, and registers again when the kubelet has restarted.
package main

import (
	"context"
	"fmt"
	"log"
	"net"
	"os"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	pb "example.com/my-project/deviceplugin"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
)

const (
	resource = "example.com/gpu"
	deadline = 10 * time.Second
	every    = 200 * time.Millisecond
)

var devices = []string{"device-0", "device-1"}

// broken returns whether a device is broken. Ask your hardware here; this example reads a file.
func broken(id string) bool {
	text, _ := os.ReadFile(setting("BROKEN_DEVICES", "broken-devices.txt"))
	return slices.Contains(strings.Fields(string(text)), id)
}

type plugin struct {
	pb.UnimplementedDevicePluginServer
}

// GetDevicePluginOptions is called while Register still waits: neither PreStartContainer nor GetPreferredAllocation.
func (plugin) GetDevicePluginOptions(context.Context, *pb.Empty) (*pb.DevicePluginOptions, error) {
	return &pb.DevicePluginOptions{}, nil
}

// ListAndWatch sends the whole list now and on each change. The end of this stream means that the plugin is gone.
func (plugin) ListAndWatch(_ *pb.Empty, stream pb.DevicePlugin_ListAndWatchServer) error {
	for sent := (*pb.ListAndWatchResponse)(nil); stream.Context().Err() == nil; time.Sleep(every) {
		list := &pb.ListAndWatchResponse{}
		for _, id := range devices {
			health := map[bool]string{false: "Healthy", true: "Unhealthy"}[broken(id)]
			list.Devices = append(list.Devices, &pb.Device{ID: id, Health: health})
		}
		if proto.Equal(list, sent) {
			continue
		}
		if err := stream.Send(list); err != nil {
			return err
		}
		sent = list
	}
	return nil
}

// Allocate answers what each container needs to use its devices. No lasting effects: the pod may still be rejected.
func (plugin) Allocate(_ context.Context, request *pb.AllocateRequest) (*pb.AllocateResponse, error) {
	answer := &pb.AllocateResponse{}
	for _, container := range request.ContainerRequests {
		for _, id := range container.DevicesIds {
			if !slices.Contains(devices, id) {
				return nil, status.Errorf(codes.InvalidArgument, "there is no device %s", id)
			}
		}
		variables := map[string]string{"DEVICES": strings.Join(container.DevicesIds, ",")}
		answer.ContainerResponses = append(answer.ContainerResponses, &pb.ContainerAllocateResponse{Envs: variables})
	}
	return answer, nil
}

// serve listens on a new socket and registers it: a kubelet that starts removes the sockets of all plugins.
func serve(ctx context.Context, directory string) (*grpc.Server, error) {
	endpoint := fmt.Sprintf("example.com-gpu-%d.sock", os.Getpid()) // two versions may run side by side
	listener, err := net.Listen("unix", filepath.Join(directory, endpoint))
	if err != nil {
		return nil, err
	}
	server := grpc.NewServer()
	pb.RegisterDevicePluginServer(server, plugin{})
	go func() { _ = server.Serve(listener) }()
	request := &pb.RegisterRequest{Version: "v1beta1", Endpoint: endpoint, ResourceName: resource}
	if err := register(ctx, filepath.Join(directory, "kubelet.sock"), request); err != nil {
		server.Stop()
		return nil, err
	}
	log.Printf("registered %s with %d devices", resource, len(devices))
	return server, nil
}

func register(ctx context.Context, socket string, request *pb.RegisterRequest) error {
	connection, err := grpc.NewClient("unix:"+socket, grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		return err
	}
	defer connection.Close()
	ctx, cancel := context.WithTimeout(ctx, deadline)
	defer cancel()
	_, err = pb.NewRegistrationClient(connection).Register(ctx, request)
	return err
}

// run serves until the context ends, each life of the kubelet anew: its socket is another file then.
func run(ctx context.Context, directory string) {
	var server *grpc.Server
	var registered os.FileInfo
	for ; ctx.Err() == nil; time.Sleep(every) {
		now, err := os.Stat(filepath.Join(directory, "kubelet.sock"))
		if err != nil || server != nil && os.SameFile(now, registered) && now.ModTime().Equal(registered.ModTime()) {
			continue
		}
		if server != nil {
			server.Stop()
		}
		if server, err = serve(ctx, directory); err != nil {
			log.Printf("not registered: %v", err)
		}
		registered = now
	}
	if server != nil {
		server.Stop()
	}
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
	run(ctx, filepath.Join(setting("NODEPLANE_KUBELET_DIR", "/var/lib/kubelet"), "device-plugins"))
}
