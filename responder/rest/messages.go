package rest

import (
	"context"
	"net/http"

	"github.com/linesman/linesman/api"
	"github.com/linesman/linesman/responder/request"
	"github.com/linesman/linesman/runs"
)

// MessageParams are the members of the body of a message, and EditParams of its change.
var (
	MessageParams = []request.Param{
		textParam,
		request.KeyParam,
		{Name: "when", Words: []string{"next", runs.WhenNow}, Default: "next",
			About: "`next`: in its turn. `now`: the turn that runs is cancelled, and this message is the first."},
	}
	EditParams = []request.Param{textParam, request.KeyParam}

	textParam = request.Param{Name: "text", Required: true, Max: runs.MaxMessage, Any: true, Lines: true,
		About: "Text for the agent, at most 262,144 bytes."}

	// TurnParams are the members of the body that names a turn.
	TurnParams = []request.Param{
		request.Integer("turn", 1, 1<<31-1, 0, "Number of the turn, from 1; absent: the one that runs. "+
			"With it a turn that began meanwhile is not cancelled."),
		request.KeyParam,
	}
	// OptionParams are the members of the body that changes options.
	OptionParams = []request.Param{
		{Name: "mode", Words: []string{string(runs.ReadOnly), string(runs.WorkspaceWrite), string(runs.DangerFull)},
			About: "What the agent may do, at most what the mode of the task allows; absent: as it is."},
		request.Text("model", runs.MaxModel, "Model of the agent; absent: as it is."),
		request.KeyParam,
	}
)

// written returns the arguments of a body.
func (q *exchange) written(params []request.Param) (*request.Args, error) {
	args, err := q.arguments(params, nil, request.Format)
	if err == nil {
		err = args.Err()
	}
	return args, err
}

// listMessages answers with all of their texts.
func listMessages(ctx context.Context, q *exchange) (*reply, error) {
	if err := q.Service.Connected(); err != nil {
		return nil, err
	}
	all, err := q.Service.Messages(ctx, api.RunRequest{Run: q.run()})
	if err != nil {
		return nil, err
	}
	return &reply{Status: http.StatusOK, Body: all}, nil
}

func sendMessage(ctx context.Context, q *exchange) (*reply, error) {
	args, err := q.written(MessageParams)
	if err != nil {
		return nil, err
	}
	return q.sent(q.Service.Send(ctx, api.SendRequest{
		Run: q.run(), Text: args.Text("text"), When: args.Text("when"), Key: args.Text(request.Key),
	}))
}

func editMessage(ctx context.Context, q *exchange) (*reply, error) {
	args, err := q.written(EditParams)
	if err != nil {
		return nil, err
	}
	return q.sent(q.Service.Send(ctx, api.SendRequest{
		Run: q.run(), Text: args.Text("text"), Message: q.r.PathValue("message"), Key: args.Text(request.Key),
	}))
}

func unsendMessage(ctx context.Context, q *exchange) (*reply, error) {
	return q.sent(q.Service.Unsend(ctx, api.MessageRequest{Run: q.run(), Message: q.r.PathValue("message")}))
}

func cancelTurn(ctx context.Context, q *exchange) (*reply, error) {
	args, err := q.written(TurnParams)
	if err != nil {
		return nil, err
	}
	return q.sent(q.Service.StopTurn(ctx, api.TurnRequest{
		Run: q.run(), Turn: int(args.Number("turn")), Key: args.Text(request.Key),
	}))
}

func setOptions(ctx context.Context, q *exchange) (*reply, error) {
	args, err := q.written(OptionParams)
	if err != nil {
		return nil, err
	}
	return q.sent(q.Service.SetOptions(ctx, api.SetRequest{
		Run: q.run(), Mode: runs.Mode(args.Text("mode")), Model: args.Text("model"), Key: args.Text(request.Key),
	}))
}

func (q *exchange) sent(done api.Sent, err error) (*reply, error) {
	if err != nil {
		return nil, err
	}
	return &reply{Status: http.StatusOK, Body: done}, nil
}
