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
func start(t *testing.T) (brokenDevices string) {
	t.Helper()
	kubelet := os.Getenv("NODEPLANE_KUBELET_DIR")
	if kubelet == "" {
		t.Skip("no node: run this with `nodeplane test -- go test ./...`")
	}
	brokenDevices = filepath.Join(t.TempDir(), "broken.txt")
	t.Setenv("BROKEN_DEVICES", brokenDevices)
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan struct{})
	go func() { defer close(ended); run(ctx, filepath.Join(kubelet, "device-plugins")) }()
	t.Cleanup(func() { cancel(); <-ended })
	until(t, "two healthy devices", func() bool { return healthy(t) == 2 })
	return brokenDevices
}

func TestPodGetsADevice(t *testing.T) {
	start(t)
	createPod(t, "first")
	if name := command(t, "", "kubectl", "exec", "first", "--", "printenv", "DEVICES"); !strings.HasPrefix(name, "device-") {
		t.Errorf("the container sees %q", name)
	}
}

func TestPluginRegistersAgainAfterTheKubeletRestarts(t *testing.T) {
	start(t)
	createPod(t, "second")
	command(t, "", "nodeplane", "restart", "devices")
	until(t, "the same devices, healthy again", func() bool { return healthy(t) == 2 })
	if held := holder(t, "default/second"); len(held) != 1 {
		t.Errorf("the pod holds %v after the restart", held)
	}
}

func TestBrokenDeviceIsGivenToNobody(t *testing.T) {
	if err := os.WriteFile(start(t), []byte("device-0\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	until(t, "one healthy device", func() bool { return healthy(t) == 1 })
	createPod(t, "third")
	if held := holder(t, "default/third"); len(held) != 1 || held[0] != "device-1" {
		t.Errorf("the pod got %v, want device-1", held)
	}
}

func createPod(t *testing.T, name string) {
	t.Helper()
	command(t, strings.ReplaceAll(pod, "NAME", name), "kubectl", "apply", "-f", "-")
	t.Cleanup(func() { command(t, "", "kubectl", "delete", "pod", name, "--wait", "--force", "--grace-period=0") })
	command(t, "", "kubectl", "wait", "--for=condition=Ready", "--timeout=60s", "pod/"+name)
}

func rows(t *testing.T) []row {
	t.Helper()
	var found []row
	if err := json.Unmarshal([]byte(command(t, "", "nodeplane", "devices", "-o", "json")), &found); err != nil {
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

func command(t *testing.T, input string, words ...string) string {
	t.Helper()
	process := exec.Command(words[0], words[1:]...)
	process.Stdin = strings.NewReader(input)
	output, err := process.CombinedOutput()
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
