package mcp

import (
	"context"
	"encoding/json"
	"errors"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
)

// stateless is the revision without sessions. Revisions are dates, and compare
// as strings.
const stateless = "2026-07-28"

// codeNoResource is what a missing resource is before [stateless]; from then
// on it is "invalid params".
const codeNoResource = -32002

// missingResource answers requests for unknown resources with the error code of
// the request's revision. The SDK uses the code of the newest revision, and
// inserts the URI into the answer in a way that is not always valid JSON.
func missingResource(next sdk.MethodHandler) sdk.MethodHandler {
	return func(ctx context.Context, method string, req sdk.Request) (sdk.Result, error) {
		res, err := next(ctx, method, req)
		read, ok := req.(*sdk.ReadResourceRequest)
		var wire *jsonrpc.Error
		if !ok || !errors.As(err, &wire) || wire.Code != jsonrpc.CodeInvalidParams {
			return res, err
		}
		data, err := json.Marshal(map[string]string{"uri": read.Params.URI})
		if err != nil {
			panic(err) // a string always encodes
		}
		code := int64(jsonrpc.CodeInvalidParams)
		if read.ProtocolVersion() < stateless {
			code = codeNoResource
		}
		return nil, &jsonrpc.Error{Code: code, Message: "resource not found", Data: data}
	}
}
