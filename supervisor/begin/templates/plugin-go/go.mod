module example.com/my-project

go 1.25

require (
	google.golang.org/grpc v1.75.0
	k8s.io/kubelet v0.36.0
)
