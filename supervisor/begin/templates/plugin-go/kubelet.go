package main

// Serve a device plugin, register it, and register it again after a restart of the kubelet. You need not edit this.

import (
	"context"
	"fmt"
	"log"
	"net"
	"os"
	"os/signal"
	"path/filepath"
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
	deadline = 10 * time.Second
	every    = 200 * time.Millisecond
)

// plugin has the calls of the kubelet.
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
		if list := (&pb.ListAndWatchResponse{Devices: devices()}); !proto.Equal(list, sent) {
			if err := stream.Send(list); err != nil {
				return err
			}
			sent = list
		}
	}
	return nil
}

// Allocate answers for each container. A device that does not exist fails the call, and so the pod.
func (plugin) Allocate(_ context.Context, request *pb.AllocateRequest) (*pb.AllocateResponse, error) {
	known := map[string]bool{}
	for _, device := range devices() {
		known[device.ID] = true
	}
	answer := &pb.AllocateResponse{}
	for _, container := range request.ContainerRequests {
		for _, id := range container.DevicesIds {
			if !known[id] {
				return nil, status.Errorf(codes.InvalidArgument, "there is no device %s", id)
			}
		}
		each, err := allocate(container.DevicesIds)
		if err != nil {
			return nil, err
		}
		answer.ContainerResponses = append(answer.ContainerResponses, each)
	}
	return answer, nil
}

// serve listens on a new socket and registers it: a kubelet that starts removes the sockets of all plugins.
func serve(ctx context.Context, directory string) (*grpc.Server, error) {
	instance := setting("POD_UID", fmt.Sprint(os.Getpid())) // two versions may run at once, each as pid 1 of its pod
	endpoint := fmt.Sprintf("%.40s-%.8s.sock", strings.ReplaceAll(resource, "/", "-"), instance)
	os.Remove(filepath.Join(directory, endpoint)) // that of a process that was killed
	server := grpc.NewServer()
	pb.RegisterDevicePluginServer(server, plugin{})
	listener, err := net.Listen("unix", filepath.Join(directory, endpoint))
	if err == nil {
		go func() { _ = server.Serve(listener) }()
		err = register(ctx, filepath.Join(directory, "kubelet.sock"), endpoint)
	}
	return server, err
}

func register(ctx context.Context, kubelet, endpoint string) error {
	connection, err := grpc.NewClient("unix:"+kubelet, grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		return err
	}
	defer connection.Close()
	ctx, cancel := context.WithTimeout(ctx, deadline)
	defer cancel()
	request := &pb.RegisterRequest{Version: "v1beta1", Endpoint: endpoint, ResourceName: resource}
	_, err = pb.NewRegistrationClient(connection).Register(ctx, request)
	return err
}

// run serves until the context ends, anew for each kubelet.sock: it is another file when the kubelet has restarted.
func run(ctx context.Context, directory string) {
	server, registered := grpc.NewServer(), os.FileInfo(nil)
	for ; ctx.Err() == nil; time.Sleep(every) {
		now, err := os.Stat(filepath.Join(directory, "kubelet.sock"))
		if err != nil || registered != nil && os.SameFile(now, registered) && now.ModTime().Equal(registered.ModTime()) {
			continue
		}
		server.Stop()
		if server, err = serve(ctx, directory); err != nil {
			log.Printf("not registered: %v", err)
			now = nil
		} else {
			log.Printf("registered %s", resource)
		}
		registered = now
	}
	server.Stop()
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
