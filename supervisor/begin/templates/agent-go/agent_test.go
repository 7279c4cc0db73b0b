package main

import (
	"context"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	pb "example.com/my-project/podresources"
)

const pod = `
apiVersion: v1
kind: Pod
metadata: {name: holder}
spec:
  terminationGracePeriodSeconds: 0
  containers:
    - name: main
      image: any
      command: [sleep, infinity]
      resources: {limits: {example.com/gpu: 1}}
`

// Start the tests with `nodeplane test -- go test ./...`, which sets the variables and starts the node.
func TestAgentSeesTheDeviceOfAPod(t *testing.T) {
	socket := os.Getenv("NODEPLANE_POD_RESOURCES")
	if socket == "" {
		t.Skip("no node: run this with `nodeplane test -- go test ./...`")
	}
	connection, err := connect(socket)
	if err != nil {
		t.Fatal(err)
	}
	defer connection.Close()
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	plugin := exec.CommandContext(ctx, "nodeplane", "plugin", "--resource", "example.com/gpu", "--devices", "1")
	if err := plugin.Start(); err != nil {
		t.Fatal(err)
	}
	lines := make(chan string, 100)
	report := func(action, pod string, held []string) { lines <- action + " " + pod + " " + strings.Join(held, " ") }
	client := pb.NewPodResourcesListerClient(connection)
	go (&follower{client: client, report: report}).run()
	apply := exec.CommandContext(ctx, "kubectl", "apply", "-f", "-")
	apply.Stdin = strings.NewReader(pod)
	if output, err := apply.CombinedOutput(); err != nil {
		t.Fatalf("kubectl apply: %v\n%s", err, output)
	}
	for deadline := time.After(30 * time.Second); ; {
		select {
		case line := <-lines:
			if strings.HasPrefix(line, "ADDED default/holder example.com/gpu=") {
				return
			}
		case <-deadline:
			t.Fatal("the agent did not see the pod in 30 s")
		}
	}
}
