// A device plugin, with all that a kubelet asks of one: it serves before it registers, sends its whole list on each
// change, and registers again when the kubelet has restarted.
package main

import (
	"context"
	"flag"
	"log"
	"net"
	"os"
	"os/signal"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/status"
	pluginapi "k8s.io/kubelet/pkg/apis/deviceplugin/v1beta1"
)

const (
	endpoint = "example.com-gpu.sock"
	deadline = 10 * time.Second
	every    = 200 * time.Millisecond
)

// Plugin offers devices of one resource below a kubelet's device-plugins directory.
type Plugin struct {
	pluginapi.UnimplementedDevicePluginServer
	Directory string
	Resource  string
	Devices   []string
}

// Run serves until the context ends, and starts anew whenever the kubelet does.
func (p *Plugin) Run(ctx context.Context) error {
	for ctx.Err() == nil {
		kubelet, err := p.waitForKubelet(ctx)
		if err != nil {
			return nil // the context has ended
		}
		if err := p.runOnce(ctx, kubelet); err != nil {
			log.Printf("%s: %v; trying again", p.Resource, err)
			time.Sleep(every)
		}
	}
	return nil
}

// runOnce serves one life of the kubelet: its socket is another file afterwards.
func (p *Plugin) runOnce(ctx context.Context, kubelet os.FileInfo) error {
	path := filepath.Join(p.Directory, endpoint)
	if err := os.Remove(path); err != nil && !os.IsNotExist(err) {
		return err
	}
	listener, err := net.Listen("unix", path)
	if err != nil {
		return err
	}
	server := grpc.NewServer()
	pluginapi.RegisterDevicePluginServer(server, p)
	go func() { _ = server.Serve(listener) }()
	defer server.Stop()
	if err := p.register(ctx); err != nil {
		return err
	}
	log.Printf("registered %s with %d devices", p.Resource, len(p.Devices))
	for ctx.Err() == nil {
		if found, err := os.Stat(p.kubeletSocket()); err != nil || !os.SameFile(found, kubelet) {
			return nil
		}
		time.Sleep(every)
	}
	return nil
}

func (p *Plugin) register(ctx context.Context) error {
	connection, err := grpc.NewClient("unix:"+p.kubeletSocket(), grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		return err
	}
	defer connection.Close()
	ctx, cancel := context.WithTimeout(ctx, deadline)
	defer cancel()
	_, err = pluginapi.NewRegistrationClient(connection).Register(ctx, &pluginapi.RegisterRequest{
		Version:      pluginapi.Version,
		Endpoint:     endpoint,
		ResourceName: p.Resource,
	})
	return err
}

func (p *Plugin) waitForKubelet(ctx context.Context) (os.FileInfo, error) {
	for {
		if found, err := os.Stat(p.kubeletSocket()); err == nil {
			return found, nil
		}
		select {
		case <-ctx.Done():
			return nil, ctx.Err()
		case <-time.After(every):
		}
	}
}

func (p *Plugin) kubeletSocket() string { return filepath.Join(p.Directory, "kubelet.sock") }

// GetDevicePluginOptions is called while Register still waits.
func (p *Plugin) GetDevicePluginOptions(context.Context, *pluginapi.Empty) (*pluginapi.DevicePluginOptions, error) {
	return &pluginapi.DevicePluginOptions{}, nil
}

// ListAndWatch sends the whole list and stays open: its end means that the plugin is gone.
func (p *Plugin) ListAndWatch(_ *pluginapi.Empty, stream pluginapi.DevicePlugin_ListAndWatchServer) error {
	list := &pluginapi.ListAndWatchResponse{}
	for _, id := range p.Devices {
		list.Devices = append(list.Devices, &pluginapi.Device{ID: id, Health: pluginapi.Healthy})
	}
	if err := stream.Send(list); err != nil {
		return err
	}
	<-stream.Context().Done()
	return nil
}

// Allocate names the devices to the container; the answer is kept for each of its starts.
func (p *Plugin) Allocate(_ context.Context, request *pluginapi.AllocateRequest) (*pluginapi.AllocateResponse, error) {
	answer := &pluginapi.AllocateResponse{}
	for _, container := range request.ContainerRequests {
		for _, id := range container.DevicesIds {
			if !slices.Contains(p.Devices, id) {
				return nil, status.Errorf(codes.InvalidArgument, "there is no device %s", id)
			}
		}
		variables := map[string]string{"DEVICES": strings.Join(container.DevicesIds, ",")}
		answer.ContainerResponses = append(answer.ContainerResponses, &pluginapi.ContainerAllocateResponse{Envs: variables})
	}
	return answer, nil
}

func devices(count int) []string {
	ids := make([]string, count)
	for i := range ids {
		ids[i] = "device-" + strconv.Itoa(i)
	}
	return ids
}

func main() {
	directory := flag.String("kubelet-dir", "/var/lib/kubelet", "kubelet's directory")
	count := flag.Int("devices", 2, "number of devices")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	defer stop()
	plugin := &Plugin{
		Directory: filepath.Join(*directory, "device-plugins"),
		Resource:  "example.com/gpu",
		Devices:   devices(*count),
	}
	if err := plugin.Run(ctx); err != nil {
		log.Fatal(err)
	}
}
