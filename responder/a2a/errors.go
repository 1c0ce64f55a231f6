package a2a

import (
	"errors"

	sdk "github.com/a2aproject/a2a-go/v2/a2a"
	"go.uber.org/zap"

	"github.com/linesman/linesman/api"
)

// answers maps the codes of the service's errors to A2A.
var answers = map[api.Code]struct {
	kind    error // the error of a request
	rejects bool  // a message with this error becomes a rejected task; otherwise it is a server error
}{
	api.Validation:     {sdk.ErrInvalidParams, true},
	api.NotFound:       {sdk.ErrTaskNotFound, false},
	api.Ended:          {sdk.ErrTaskNotCancelable, false},
	api.NotEnded:       {sdk.ErrUnsupportedOperation, false},
	api.NotWaiting:     {sdk.ErrUnsupportedOperation, false},
	api.Conflict:       {sdk.ErrUnsupportedOperation, false},
	api.Timeout:        {sdk.ErrServerError, false},
	api.Unsupported:    {sdk.ErrUnsupportedOperation, true},
	api.ProgramFailed:  {sdk.ErrServerError, false},
	api.NotSignedIn:    {sdk.ErrServerError, false},
	api.QueueFull:      {sdk.ErrServerError, true},
	api.TooMany:        {sdk.ErrServerError, false},
	api.KeyConflict:    {sdk.ErrInvalidParams, true},
	api.KeyInFlight:    {sdk.ErrServerError, false},
	api.KeyExpired:     {sdk.ErrInvalidParams, true},
	api.RateLimited:    {sdk.ErrServerError, true},
	api.OutcomeUnknown: {sdk.ErrServerError, false},
	api.Unavailable:    {sdk.ErrServerError, false},
	api.Internal:       {sdk.ErrInternalError, false},
}

// fail returns an error for callers: its kind in the protocol, and the reason.
func fail(kind error, why string) *sdk.Error { return sdk.NewError(kind, why) }

// explain converts any error into one for callers. Internal causes are only
// logged.
func (h *Handler) explain(what string, err error) error {
	var known *sdk.Error
	var e *api.Error
	switch {
	case errors.As(err, &known):
		return known
	case !errors.As(err, &e):
		h.log.Warn("a request failed", zap.String("operation", what), zap.Error(err))
	case e.Code != api.Internal:
		return fail(answers[e.Code].kind, e.Message)
	}
	return fail(sdk.ErrInternalError, "linesman broke off; its log says where")
}
