package telemetry

import (
	"fmt"
	"net"
	"strings"
	"testing"
	"time"

	tracepb "go.opentelemetry.io/proto/otlp/trace/v1"
	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/emptypb"
)

// Over gRPC a receiver gets the same spans, with headers, and its answers mean the same.
func TestSpansAreSentOverGRPC(t *testing.T) {
	var got []string
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	server := grpc.NewServer(grpc.UnknownServiceHandler(func(_ any, s grpc.ServerStream) error {
		method, _ := grpc.MethodFromServerStream(s)
		header, _ := metadata.FromIncomingContext(s.Context())
		var m tracepb.TracesData
		if err := s.RecvMsg(&m); err != nil {
			return err
		}
		got = append(got, fmt.Sprint(method, header["x-key"], m.ResourceSpans[0].ScopeSpans[0].Spans[0].Name))
		answer := &emptypb.Empty{}
		switch len(got) {
		case 1:
			return status.Error(codes.Unavailable, "later")
		case 2:
			return status.Error(codes.InvalidArgument, "sentinel")
		case 3:
			answer.ProtoReflect().SetUnknown([]byte{10, 2, 8, 1}) // partial_success {rejected_spans: 1}
		}
		return s.SendMsg(answer)
	}))
	go func() { _ = server.Serve(listener) }()
	defer server.Stop()
	e, err := New(Config{Env: func(k string) string {
		return map[string]string{
			"OTEL_EXPORTER_OTLP_ENDPOINT": listener.Addr().String(), "OTEL_EXPORTER_OTLP_PROTOCOL": "grpc",
			"OTEL_EXPORTER_OTLP_INSECURE": "true", "OTEL_EXPORTER_OTLP_HEADERS": "X-Key=1",
			"OTEL_EXPORTER_OTLP_COMPRESSION": "gzip",
		}[k]
	}})
	if err != nil {
		t.Fatal(err)
	}
	spans := &tracepb.TracesData{ResourceSpans: []*tracepb.ResourceSpans{{ScopeSpans: []*tracepb.ScopeSpans{{
		Spans: []*tracepb.Span{{Name: "run"}},
	}}}}}
	for _, want := range []int64{-1, 1, 0} { // the first request is repeated
		if rejected, err := e.sendAll(t.Context(), e.traces, spans, false); err != nil || rejected != want {
			t.Errorf("%d rejected, %v, want %d", rejected, err, want)
		}
	}
	for _, call := range got {
		if want := exports["traces"] + "[1]run"; call != want {
			t.Errorf("%s, want %s", call, want)
		}
	}
	if len(got) != 4 {
		t.Errorf("%d requests, want 4", len(got))
	}
}

// A receiver that is out of resources is asked again only if it names a time, or for a limited
// time.
func TestStatusOfGRPC(t *testing.T) {
	exhausted := status.New(codes.ResourceExhausted, "sentinel")
	later, err := exhausted.WithDetails(&errdetails.RetryInfo{RetryDelay: durationpb.New(7 * time.Second)})
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		s            *status.Status
		final, fault bool
		after        time.Duration
	}{
		{s: status.New(codes.Unavailable, "")},
		{s: status.New(codes.Unauthenticated, "")},
		{s: status.New(codes.InvalidArgument, ""), final: true},
		{s: status.New(codes.Internal, ""), fault: true},
		{s: exhausted, fault: true},
		{s: later, after: 7 * time.Second},
	} {
		r := refusalOf(c.s)
		if r.final() != c.final || r.fault() != c.fault || r.after != c.after {
			t.Errorf("%v: %+v", c.s, r)
		}
		if text := r.Error(); !strings.Contains(text, c.s.Code().String()) || strings.Contains(text, "sentinel") {
			t.Errorf("%v: %q", c.s, text)
		}
	}
}

// Without a limit of time a request waits for its answer.
func TestNoTimeoutIsNoLimit(t *testing.T) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	server := grpc.NewServer(grpc.UnknownServiceHandler(func(_ any, s grpc.ServerStream) error {
		if err := s.RecvMsg(&tracepb.TracesData{}); err != nil {
			return err
		}
		return s.SendMsg(&emptypb.Empty{})
	}))
	go func() { _ = server.Serve(listener) }()
	defer server.Stop()
	e, err := New(Config{Env: func(k string) string {
		return map[string]string{
			"OTEL_EXPORTER_OTLP_ENDPOINT": "http://" + listener.Addr().String(), "OTEL_EXPORTER_OTLP_PROTOCOL": "grpc",
			"OTEL_EXPORTER_OTLP_TIMEOUT": "0",
		}[k]
	}})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := e.traces.send(t.Context(), &tracepb.TracesData{}); err != nil {
		t.Error(err)
	}
}
