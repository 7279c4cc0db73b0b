package main

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

const objects = `
apiVersion: resource.k8s.io/v1
kind: DeviceClass
metadata: {name: gpu.example.com}
spec: {selectors: [{cel: {expression: device.driver == "gpu.example.com"}}]}
---
apiVersion: resource.k8s.io/v1
kind: ResourceClaim
metadata: {name: one}
spec: {devices: {requests: [{name: device, exactly: {deviceClassName: gpu.example.com}}]}}
---
apiVersion: v1
kind: Pod
metadata: {name: user}
spec:
  terminationGracePeriodSeconds: 0
  resourceClaims: [{name: device, resourceClaimName: one}]
  containers:
    - {name: main, image: any, command: [sleep, infinity], resources: {claims: [{name: device}]}}
`

// Start the tests with `nodeplane test -- go test ./...`, which sets the variables and starts the node.
func TestPodGetsTheDeviceOfItsClaim(t *testing.T) {
	if os.Getenv("NODEPLANE_KUBELET_DIR") == "" {
		t.Skip("no node: run this with `nodeplane test -- go test ./...`")
	}
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error)
	go func() { ended <- run(ctx) }()
	kubectl(t, objects, "apply", "-f", "-")
	kubectl(t, "", "wait", "--for=condition=Ready", "--timeout=60s", "pod/user")
	if files, _ := filepath.Glob(filepath.Join(os.Getenv("CDI_ROOT"), driverName+"-*.json")); len(files) != 1 {
		t.Errorf("CDI files of one claim: %v", files)
	}
	kubectl(t, objects, "delete", "--wait", "-f", "-")
	cancel()
	if err := <-ended; err != nil {
		t.Error(err)
	}
}

func kubectl(t *testing.T, input string, words ...string) {
	t.Helper()
	command := exec.Command("kubectl", words...)
	command.Stdin = strings.NewReader(input)
	if output, err := command.CombinedOutput(); err != nil {
		t.Fatalf("kubectl %s: %v\n%s", strings.Join(words, " "), err, output)
	}
}
