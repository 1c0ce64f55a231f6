package telemetry

import (
	"context"
	"net/http"
	"net/url"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/encoding/gzip"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/emptypb"
)

// exports are the methods of OTLP/gRPC by the signal. Their requests have the form of a file
// of the signal.
var exports = map[string]string{
	"traces":  "/opentelemetry.proto.collector.trace.v1.TraceService/Export",
	"metrics": "/opentelemetry.proto.collector.metrics.v1.MetricsService/Export",
}

// dial makes t one over gRPC. It sends nothing yet.
func (t *target) dial(at *url.URL, plain bool) (err error) {
	security := credentials.NewTLS(t.tls)
	if plain {
		security = insecure.NewCredentials()
	}
	t.conn, err = grpc.NewClient(at.Host, grpc.WithTransportCredentials(security))
	return err
}

// close closes the connection of gRPC.
func (t *target) close() {
	if t != nil && t.conn != nil {
		_ = t.conn.Close() // nothing is sent any more
	}
}

// invoke is send over gRPC.
func (t *target) invoke(ctx context.Context, m proto.Message) (rejected int64, err error) {
	if t.client.Timeout > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, t.client.Timeout)
		defer cancel()
	}
	for name, values := range t.headers {
		for _, value := range values {
			ctx = metadata.AppendToOutgoingContext(ctx, name, value)
		}
	}
	var options []grpc.CallOption
	if t.gzip {
		options = append(options, grpc.UseCompressor(gzip.Name))
	}
	answer := &emptypb.Empty{} // its one field is unknown
	if err = t.conn.Invoke(ctx, t.method, m, answer, options...); err != nil {
		return 0, refusalOf(status.Convert(err))
	}
	return rejectedIn(answer.ProtoReflect().GetUnknown()), nil
}

// refusalOf translates a status of gRPC. Resources that are exhausted are a reason to wait only
// if the receiver names a time: the request may be larger than it accepts.
func refusalOf(s *status.Status) *refusal {
	r := &refusal{status: statusOf(s.Code()), code: s.Code()}
	for _, d := range s.Details() {
		if retry, ok := d.(*errdetails.RetryInfo); ok {
			r.after = retry.GetRetryDelay().AsDuration()
			return r
		}
	}
	if s.Code() == codes.ResourceExhausted {
		r.status = http.StatusInternalServerError
	}
	return r
}

// statusOf is the status of HTTP for a code of gRPC.
func statusOf(code codes.Code) int {
	switch code {
	case codes.InvalidArgument:
		return http.StatusBadRequest
	case codes.Unimplemented:
		return http.StatusNotImplemented
	case codes.Unauthenticated:
		return http.StatusUnauthorized
	case codes.PermissionDenied:
		return http.StatusForbidden
	case codes.NotFound:
		return http.StatusNotFound
	case codes.ResourceExhausted:
		return http.StatusTooManyRequests
	case codes.Internal, codes.Unknown:
		return http.StatusInternalServerError
	}
	return http.StatusServiceUnavailable
}
