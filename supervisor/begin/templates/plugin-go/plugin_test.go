package main

import (
	"context"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

const pod = `
apiVersion: v1
kind: Pod
metadata: {name: NAME}
spec:
  terminationGracePeriodSeconds: 1
  containers:
    - name: main
      image: any
      command: [sleep, infinity]
      resources: {limits: {example.com/gpu: 1}}
`

// row is a device as `nodeplane devices -o json` shows it.
type row struct{ Device, Health, Pod string }

// Start the tests with `nodeplane test -- go test ./...`, which sets the variables and starts the node.
func start(t *testing.T) {
	t.Helper()
	kubelet := os.Getenv("NODEPLANE_KUBELET_DIR")
	if kubelet == "" {
		t.Skip("no node: run this with `nodeplane test -- go test ./...`")
	}
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan struct{})
	plugin := &Plugin{Directory: filepath.Join(kubelet, "device-plugins"), Resource: "example.com/gpu", Devices: devices(2)}
	go func() { defer close(ended); _ = plugin.Run(ctx) }()
	t.Cleanup(func() { cancel(); <-ended })
	until(t, "two healthy devices", func() bool { return healthy(t) == 2 })
}

func TestPodGetsADevice(t *testing.T) {
	start(t)
	createPod(t, "first")
	if name := run(t, "", "kubectl", "exec", "first", "--", "printenv", "DEVICES"); !strings.HasPrefix(name, "device-") {
		t.Errorf("the container sees %q", name)
	}
}

func TestPluginRegistersAgainAfterTheKubeletRestarts(t *testing.T) {
	start(t)
	createPod(t, "second")
	run(t, "", "nodeplane", "restart", "devices")
	until(t, "the same devices, healthy again", func() bool { return healthy(t) == 2 })
	if held := holder(t, "default/second"); len(held) != 1 {
		t.Errorf("the pod holds %v after the restart", held)
	}
}

func TestBrokenDeviceLeavesTheOther(t *testing.T) {
	start(t)
	run(t, "", "nodeplane", "chaos", "device", "example.com/gpu", "device-0", "unhealthy")
	t.Cleanup(func() { run(t, "", "nodeplane", "chaos", "device", "example.com/gpu", "device-0", "clear") })
	until(t, "one healthy device", func() bool { return healthy(t) == 1 })
	createPod(t, "third")
	if held := holder(t, "default/third"); len(held) != 1 || held[0] != "device-1" {
		t.Errorf("the pod got %v, want device-1", held)
	}
}

func createPod(t *testing.T, name string) {
	t.Helper()
	run(t, strings.ReplaceAll(pod, "NAME", name), "kubectl", "apply", "-f", "-")
	t.Cleanup(func() { run(t, "", "kubectl", "delete", "pod", name, "--wait", "--force", "--grace-period=0") })
	run(t, "", "kubectl", "wait", "--for=condition=Ready", "--timeout=60s", "pod/"+name)
}

func rows(t *testing.T) []row {
	t.Helper()
	var found []row
	if err := json.Unmarshal([]byte(run(t, "", "nodeplane", "devices", "-o", "json")), &found); err != nil {
		t.Fatal(err)
	}
	return found
}

func healthy(t *testing.T) int {
	t.Helper()
	count := 0
	for _, each := range rows(t) {
		if each.Health == "Healthy" {
			count++
		}
	}
	return count
}

func holder(t *testing.T, pod string) (held []string) {
	t.Helper()
	for _, each := range rows(t) {
		if each.Pod == pod {
			held = append(held, each.Device)
		}
	}
	return held
}

func run(t *testing.T, input string, words ...string) string {
	t.Helper()
	command := exec.Command(words[0], words[1:]...)
	command.Stdin = strings.NewReader(input)
	output, err := command.CombinedOutput()
	if err != nil {
		t.Fatalf("%s: %v\n%s", strings.Join(words, " "), err, output)
	}
	return string(output)
}

func until(t *testing.T, what string, holds func() bool) {
	t.Helper()
	for deadline := time.Now().Add(30 * time.Second); time.Now().Before(deadline); time.Sleep(100 * time.Millisecond) {
		if holds() {
			return
		}
	}
	t.Fatalf("not in 30 s: %s", what)
}
