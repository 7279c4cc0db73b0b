// An agent that prints which pod holds which device, and every change. It watches where the node offers that, and lists
// every `poll` where it does not, as at a kubelet.
package main

import (
	"context"
	"fmt"
	"log"
	"os"
	"os/signal"
	"reflect"
	"strings"
	"syscall"
	"time"

	pb "example.com/my-project/podresources"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
)

const (
	poll     = 5 * time.Second
	deadline = 10 * time.Second
	retry    = 500 * time.Millisecond
)

// agent has the devices of the pods by namespace/name, and the position at which the watch resumes.
type agent struct {
	client   pb.PodResourcesListerClient
	report   func(action, pod string, devices []string) // the place for what your agent does
	pods     map[string][]string
	position string
}

// set reports a pod that has changed; one without a list is gone.
func (a *agent) set(name string, held []string) {
	before, action := a.pods[name], "UPDATED"
	if reflect.DeepEqual(before, held) {
		return
	}
	a.pods[name] = held
	if held == nil {
		action = "DELETED"
		delete(a.pods, name)
	} else if before == nil {
		action = "ADDED"
	}
	a.report(action, name, held)
}

// became reports the difference to all pods: what is gone first, since its devices may be another pod's now.
func (a *agent) became(now map[string][]string) {
	for name := range a.pods {
		if _, there := now[name]; !there {
			a.set(name, nil)
		}
	}
	for name, held := range now {
		a.set(name, held)
	}
}

// list reads everything once, where nothing can be watched.
func (a *agent) list(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, deadline)
	defer cancel()
	found, err := a.client.List(ctx, &pb.ListPodResourcesRequest{})
	if err != nil {
		return err
	}
	now := map[string][]string{}
	for _, pod := range found.PodResources {
		now[pod.Namespace+"/"+pod.Name] = devices(pod)
	}
	a.became(now)
	return nil
}

// watch follows one stream, after the last event where one was seen, until it breaks.
func (a *agent) watch(ctx context.Context) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	begin := []string{"nodeplane-snapshot", "1"}
	if a.position != "" {
		begin = []string{"nodeplane-resume", a.position}
	}
	outgoing := metadata.AppendToOutgoingContext(ctx, append(begin, "nodeplane-sequence", "1")...)
	stream, err := a.client.ListAndWatch(outgoing, &pb.ListAndWatchPodResourcesRequest{})
	if err != nil {
		return err
	}
	header, err := stream.Header()
	if err != nil {
		return err
	}
	revision := strings.Join(header.Get("nodeplane-revision"), "")
	var snapshot map[string][]string // while it arrives
	if revision != "" && a.position == "" {
		snapshot = map[string][]string{}
	}
	if revision == "" { // a watch without snapshots and positions: read what it will not send
		if err := a.list(ctx); err != nil {
			return err
		}
	}
	for {
		event, err := stream.Recv()
		if err != nil {
			return err
		}
		if event.Action == pb.ListAndWatchPodResourcesResponse_BOOKMARK && snapshot != nil {
			a.became(snapshot)
			snapshot, a.position = nil, revision
			continue
		}
		for _, pod := range event.PodResources {
			name := pod.Namespace + "/" + pod.Name
			switch {
			case snapshot != nil:
				snapshot[name] = devices(pod)
			case event.Action == pb.ListAndWatchPodResourcesResponse_DELETED:
				a.set(name, nil)
			default:
				a.set(name, devices(pod))
			}
		}
		if snapshot == nil && revision != "" {
			lineage, _, _ := strings.Cut(revision, "-")
			a.position = fmt.Sprintf("%s-%d", lineage, event.Sequence)
		}
	}
}

// run follows the node until the context ends: a stream that breaks is opened again.
func (a *agent) run(ctx context.Context) {
	follow, pause := a.watch, retry
	for ctx.Err() == nil {
		err := follow(ctx)
		switch status.Code(err) {
		case codes.OutOfRange: // the position is lost: begin with a snapshot
			a.position = ""
		case codes.Unimplemented:
			follow, pause = a.list, poll
		}
		if err != nil && ctx.Err() == nil {
			log.Print(err)
		}
		select {
		case <-ctx.Done():
		case <-time.After(pause):
		}
	}
}

// devices is never nil.
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
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	defer stop()
	report := func(action, pod string, devices []string) { fmt.Println(action, pod, devices) }
	client := pb.NewPodResourcesListerClient(connection)
	(&agent{client: client, report: report, pods: map[string][]string{}}).run(ctx)
}
