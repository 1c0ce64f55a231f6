package rest

import (
	"context"
	"net/http"

	"github.com/linesman/linesman/api"
	"github.com/linesman/linesman/responder/request"
	"github.com/linesman/linesman/runs"
)

// AnswerParams are the members of the body of an answer.
var AnswerParams = []request.Param{
	request.Text("option", 0, "Of a permission: the `id` of an option; or `allow` or `deny`, for the only option of the "+
		"kind `allow_once` or `reject_once`. Of a form: `decline` or `cancel`."),
	request.Object("content", runs.MaxContent, "Of a form: an object as its schema in `fields` says, at most 16 KiB."),
	request.Text("digest", 64, "`digest` of the question: required to allow one that is `cut`, whose whole request is read "+
		"apart."),
	{Name: "text", Lines: true, About: "Of a text: the answer."},
	{Name: "error", Lines: true, About: "Of a text: why there is no answer."},
}

func listQuestions(ctx context.Context, q *exchange) (*reply, error) {
	all, err := q.Service.Waiting(ctx, api.QuestionsRequest{Request: q.query.Get("run")})
	if api.Is(err, api.NotFound) { // no question is open
		all, err = api.Questions{Requests: []api.Question{}}, nil
	}
	if err != nil {
		return nil, err
	}
	return &reply{Status: http.StatusOK, Body: all}, nil
}

func getRequest(ctx context.Context, q *exchange) (*reply, error) {
	offset := int(q.query.number("offset"))
	if q.query.err != nil {
		return nil, q.query.err
	}
	piece, err := q.Service.Request(ctx, api.RequestRequest{
		Run: q.run(), Question: q.r.PathValue("question"), Offset: offset,
	})
	if err != nil {
		return nil, err
	}
	return &reply{Status: http.StatusOK, Body: piece}, nil
}

// answerQuestion needs no key: a repeated answer is none of its own.
func answerQuestion(ctx context.Context, q *exchange) (*reply, error) {
	args, err := q.arguments(AnswerParams, nil, request.Format)
	if err != nil {
		return nil, err
	}
	if err := args.Err(); err != nil {
		return nil, err
	}
	a := api.AnswerRequest{
		Request: q.run(), Question: q.r.PathValue("question"), Option: args.Text("option"), Content: args.Raw("content"),
		Digest: args.Text("digest"),
	}
	if args.Has("text") {
		a.Text = new(args.Text("text"))
	}
	if args.Has("error") {
		a.Error = new(args.Text("error"))
	}
	done, err := q.Service.Decide(ctx, a)
	if err != nil {
		return nil, err
	}
	return &reply{Status: http.StatusOK, Body: done}, nil
}
