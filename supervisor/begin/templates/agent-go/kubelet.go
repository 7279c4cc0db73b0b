package main

// Follow the pods of a node by a watch, or by lists where it has none, as a kubelet. You need not edit this.

import (
	"context"
	"fmt"
	"log"
	"os"
	"reflect"
	"strings"
	"time"

	pb "example.com/my-project/podresources"
	"google.golang.org/grpc"
	"google.golang.org/grpc/backoff"
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

// follower has the devices of the pods by namespace/name, and the position at which the watch resumes.
type follower struct {
	client   pb.PodResourcesListerClient
	report   func(action, pod string, devices []string)
	pods     map[string][]string
	position string
}

// became reports the difference, what is gone first: its devices may be another pod's now.
func (f *follower) became(pods map[string][]string) {
	before := f.pods
	f.pods = map[string][]string{}
	for name := range before {
		if _, there := pods[name]; !there {
			f.report("DELETED", name, nil)
		}
	}
	for name, held := range pods {
		f.pods[name] = held
		if old, there := before[name]; !there {
			f.report("ADDED", name, held)
		} else if !reflect.DeepEqual(old, held) {
			f.report("UPDATED", name, held)
		}
	}
}

// list reads everything once, where nothing can be watched.
func (f *follower) list() error {
	ctx, cancel := context.WithTimeout(context.Background(), deadline)
	defer cancel()
	found, err := f.client.List(ctx, &pb.ListPodResourcesRequest{})
	if err != nil {
		return err
	}
	pods := map[string][]string{}
	for _, pod := range found.PodResources {
		pods[pod.Namespace+"/"+pod.Name] = devices(pod)
	}
	f.became(pods)
	return nil
}

// watch follows one stream, after the last event where one was seen, until it breaks.
func (f *follower) watch() error {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	begin := []string{"nodeplane-snapshot", "1"}
	if f.position != "" {
		begin = []string{"nodeplane-resume", f.position}
	}
	outgoing := metadata.AppendToOutgoingContext(ctx, append(begin, "nodeplane-sequence", "1")...)
	stream, err := f.client.ListAndWatch(outgoing, &pb.ListAndWatchPodResourcesRequest{})
	if err != nil {
		return err
	}
	header, err := stream.Header()
	if err != nil {
		return err
	}
	revision := strings.Join(header.Get("nodeplane-revision"), "")
	if revision == "" { // a watch without snapshots and positions: read what it will not send
		if err := f.list(); err != nil {
			return err
		}
	}
	complete, pods := f.position != "" || revision == "", map[string][]string{}
	for name, held := range f.pods {
		if complete {
			pods[name] = held
		}
	}
	for {
		event, err := stream.Recv()
		if err != nil {
			return err
		}
		for _, pod := range event.PodResources {
			delete(pods, pod.Namespace+"/"+pod.Name)
			if event.Action != pb.ListAndWatchPodResourcesResponse_DELETED {
				pods[pod.Namespace+"/"+pod.Name] = devices(pod)
			}
		}
		if complete = complete || event.Action == pb.ListAndWatchPodResourcesResponse_BOOKMARK; !complete {
			continue // the snapshot arrives
		}
		f.became(pods)
		f.position = revision
		if lineage, _, resumes := strings.Cut(revision, "-"); resumes && event.Sequence > 0 {
			f.position = fmt.Sprintf("%s-%d", lineage, event.Sequence)
		}
	}
}

// run never ends: a stream that breaks is opened again.
func (f *follower) run() {
	next, pause := f.watch, retry
	for ; ; time.Sleep(pause) {
		err := next()
		switch status.Code(err) {
		case codes.OK:
			continue
		case codes.OutOfRange: // the position is lost: begin with a snapshot
			f.position = ""
		case codes.Unimplemented:
			next, pause = f.list, poll
		}
		log.Print(err)
	}
}

func connect(socket string) (*grpc.ClientConn, error) {
	limits := backoff.Config{BaseDelay: retry, Multiplier: 2, MaxDelay: poll}
	return grpc.NewClient("unix:"+socket,
		grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithConnectParams(grpc.ConnectParams{Backoff: limits, MinConnectTimeout: deadline}),
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
	(&follower{client: pb.NewPodResourcesListerClient(connection), report: report}).run()
}
