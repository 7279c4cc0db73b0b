// An agent that prints which pod holds which device, and every change.
package main

import (
	"context"
	"fmt"
	"log"
	"os"
	"os/signal"
	"strings"
	"syscall"
	"time"

	"example.com/my-project/podresources"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
)

//go:generate make stubs

const retry = 500 * time.Millisecond

// Agent knows where its watch goes on.
type Agent struct {
	Client   podresources.PodResourcesListerClient
	Report   func(action, pod string, devices []string)
	position string
}

// Run follows the node until the context ends: a stream that breaks is opened again after the last event.
func (a *Agent) Run(ctx context.Context) error {
	for ctx.Err() == nil {
		err := a.watch(ctx)
		switch status.Code(err) {
		case codes.Unimplemented:
			return fmt.Errorf("no watch here; List is what this node has: %w", err)
		case codes.OutOfRange: // the position is lost: begin with a snapshot
			a.position = ""
		}
		select {
		case <-ctx.Done():
		case <-time.After(retry):
		}
	}
	return nil
}

func (a *Agent) watch(ctx context.Context) error {
	begin := []string{"nodeplane-snapshot", "1"}
	if a.position != "" {
		begin = []string{"nodeplane-resume", a.position}
	}
	ctx = metadata.AppendToOutgoingContext(ctx, append(begin, "nodeplane-sequence", "1")...)
	stream, err := a.Client.ListAndWatch(ctx, &podresources.ListAndWatchPodResourcesRequest{})
	if err != nil {
		return err
	}
	header, err := stream.Header()
	if err != nil {
		return err
	}
	revision := strings.Join(header.Get("nodeplane-revision"), "")
	lineage, _, _ := strings.Cut(revision, "-")
	for {
		event, err := stream.Recv()
		if err != nil {
			return err
		}
		if event.Action == podresources.ListAndWatchPodResourcesResponse_BOOKMARK { // the snapshot is complete
			a.position = revision
			continue
		}
		for _, pod := range event.PodResources {
			a.Report(event.Action.String(), pod.Namespace+"/"+pod.Name, devices(pod))
		}
		if event.Sequence > 0 {
			a.position = fmt.Sprintf("%s-%d", lineage, event.Sequence)
		}
	}
}

func devices(pod *podresources.PodResources) (found []string) {
	for _, container := range pod.Containers {
		for _, entry := range container.Devices {
			for _, id := range entry.DeviceIds {
				found = append(found, entry.ResourceName+"="+id)
			}
		}
	}
	return found
}

func connect(socket string) (*grpc.ClientConn, error) {
	return grpc.NewClient("unix:"+socket,
		grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithDefaultCallOptions(grpc.MaxCallRecvMsgSize(16<<20)))
}

func main() {
	socket := os.Getenv("NODEPLANE_POD_RESOURCES")
	if socket == "" {
		socket = "/var/lib/kubelet/pod-resources/kubelet.sock"
	}
	connection, err := connect(socket)
	if err != nil {
		log.Fatal(err)
	}
	defer connection.Close()
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	defer stop()
	agent := &Agent{
		Client: podresources.NewPodResourcesListerClient(connection),
		Report: func(action, pod string, devices []string) { fmt.Println(action, pod, devices) },
	}
	if err := agent.Run(ctx); err != nil {
		log.Fatal(err)
	}
}
