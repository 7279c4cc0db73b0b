// Package proto encodes messages of today's generator; Debian's gRPC 1.33 was built for those of golang/protobuf 1.3.
package proto

import (
	"google.golang.org/grpc/encoding"
	"google.golang.org/protobuf/proto"
)

const Name = "proto"

func init() { encoding.RegisterCodec(codec{}) }

type codec struct{}

func (codec) Marshal(v interface{}) ([]byte, error) { return proto.Marshal(v.(proto.Message)) }

func (codec) Unmarshal(data []byte, v interface{}) error {
	return proto.Unmarshal(data, v.(proto.Message))
}

func (codec) Name() string { return Name }
