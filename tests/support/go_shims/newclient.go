package grpc

// NewClient is the name of Dial since gRPC 1.63.
func NewClient(target string, options ...DialOption) (*ClientConn, error) {
	return Dial(target, options...)
}
