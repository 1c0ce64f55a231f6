package top

import (
	"cmp"
	"strings"

	"github.com/linesman/linesman/cmd/console"
)

// columns are those of the list, in the order of the screen.
var columns = console.Table{
	{Title: "STATE", Rank: 0, Min: 9, Max: 9, Text: func(c console.Cells) string { return c.State }},
	{Title: "TIME", Rank: 3, Min: 7, Max: 7, Text: func(c console.Cells) string { return c.Time }},
	{Title: "AGENT", Rank: 4, Min: 8, Max: 8, Text: func(c console.Cells) string { return agentName(c.Agent) }},
	{Title: "TITLE", Rank: 1, Min: 22, Max: 72, Text: func(c console.Cells) string { return cmp.Or(c.Title, c.ID) }},
	{Title: "ACTIVITY", Rank: 2, Min: 22, Max: 64, Text: console.Cells.Now},
	{Title: "PLAN", Rank: 6, Min: 5, Max: 5, Text: func(c console.Cells) string { return c.Plan }},
	{Title: "TOKENS", Rank: 5, Min: 9, Max: 11, Text: func(c console.Cells) string { return c.Tokens }},
	{Title: "DIRECTORY", Rank: 7, Min: 14, Max: 32, Text: func(c console.Cells) string { return c.Dir }, KeepEnd: true},
	{Title: "RUN", Rank: 8, Min: 23, Max: 23, Text: func(c console.Cells) string { return c.ID }},
	{Title: "LABELS", Rank: 9, Min: 14, Max: 40, Text: func(c console.Cells) string { return c.Labels }},
	{Title: "MODEL", Rank: 10, Min: 14, Max: 20, Text: func(c console.Cells) string { return c.Model }},
}

func agentName(kind string) string {
	return strings.TrimSuffix(strings.TrimSuffix(kind, "_code"), "_cli")
}
