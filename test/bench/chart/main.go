// Command chart draws the report of `make bench` as SVG: rates, and latency. A chart whose
// metrics were not measured is left as it is.
//
//	chart BENCH.JSON DIR
package main

import (
	"encoding/json"
	"fmt"
	"image/color"
	"os"
	"path/filepath"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/font"
	"gonum.org/v1/plot/plotter"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"
)

// report is the part of the report that is drawn: values by "SOURCE METRIC".
type report struct {
	Metrics map[string]float64 `json:"metrics"`
	Rows    []struct {
		Metric string   `json:"metric"`
		Bound  *float64 `json:"bound"` // to be reached; nil: none
	} `json:"rows"`
}

var (
	blue   = color.RGBA{R: 0x33, G: 0x66, B: 0xaa, A: 0xff}
	orange = color.RGBA{R: 0xdd, G: 0x88, B: 0x33, A: 0xff}
	red    = color.RGBA{R: 0xbb, G: 0x33, B: 0x44, A: 0xff}
)

const width, height = 18 * vg.Centimeter, 9 * vg.Centimeter

func main() {
	if len(os.Args) != 3 {
		fmt.Fprintln(os.Stderr, "usage: chart BENCH.JSON DIR")
		os.Exit(2)
	}
	if err := run(os.Args[1], os.Args[2]); err != nil {
		fmt.Fprintln(os.Stderr, "chart:", err)
		os.Exit(1)
	}
}

func run(file, dir string) error {
	plot.DefaultFont = font.Font{Typeface: "Liberation", Variant: "Sans"}
	b, err := os.ReadFile(file)
	if err != nil {
		return err
	}
	var r report
	if err := json.Unmarshal(b, &r); err != nil {
		return fmt.Errorf("%s: %w", file, err)
	}
	for name, draw := range map[string]func(report) (*plot.Plot, error){
		"performance-rates.svg": rates, "performance-latency.svg": latency,
	} {
		p, err := draw(r)
		if err == nil && p != nil {
			err = p.Save(width, height, filepath.Join(dir, name))
		}
		if err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
	}
	return nil
}

// sources are what the chart of rates shows: the beginning of the names of the metrics.
var sources = []struct{ label, prefix string }{
	{"one process", "Pipeline "}, {"tail, 4 files", "tail "}, {"pipe --wait", "one pipe-"}, {"run", "one run-"},
	{"3 copies, 4 files", "replicas "},
}

// rates draws lines per second as a share of Z, and what is to be reached as outlines. It returns
// nil if nothing of it was measured.
func rates(r report) (*plot.Plot, error) {
	p := plot.New()
	p.Title.Text = "Lines per second, as a share of a bare fast-ingest publisher (Z)"
	p.Y.Label.Text = "of Z"
	p.Y.Min, p.Y.Max = 0, 1
	p.Legend.Top = true
	p.Add(plotter.NewGrid())
	bounds := map[string]float64{}
	for _, row := range r.Rows {
		if row.Bound != nil {
			bounds[row.Metric] = *row.Bound
		}
	}
	var outline *plotter.BarChart
	for i, c := range []struct {
		name  string
		color color.Color
	}{{"small", blue}, {"mix", orange}} {
		var measured, wanted plotter.Values
		var labels []string
		for _, s := range sources {
			metric := s.prefix + c.name + "/Z"
			if value, is := r.Metrics[metric]; is {
				measured, wanted, labels = append(measured, value), append(wanted, bounds[metric]), append(labels, s.label)
			}
		}
		if len(measured) == 0 {
			return nil, nil
		}
		const width = 24
		bars, err := plotter.NewBarChart(measured, width)
		if err != nil {
			return nil, err
		}
		if outline, err = plotter.NewBarChart(wanted, width); err != nil {
			return nil, err
		}
		bars.Color, bars.LineStyle.Width, bars.Offset = c.color, 0, width*(vg.Length(i)-0.5)
		outline.Color, outline.Offset = color.Transparent, bars.Offset
		p.Add(bars, outline)
		p.Legend.Add(c.name, bars)
		p.NominalX(labels...)
	}
	p.Legend.Add("target", outline)
	return p, nil
}

// latency draws percentiles of the time from a line in a file to its event at a subscriber; dashed,
// those of the messages of Z. It returns nil if not all was measured.
func latency(r report) (*plot.Plot, error) {
	p := plot.New()
	p.Title.Text = "From a line in a file to its event at a subscriber (dashed: messages of Z)"
	p.Y.Label.Text = "ms"
	p.Y.Scale, p.Y.Tick.Marker = plot.LogScale{}, plot.LogTicks{Prec: -1}
	p.Legend.Top = true
	p.Add(plotter.NewGrid())
	percentiles := []string{"p50", "p99", "p99.9"}
	p.NominalX(percentiles...)
	p.X.Max = 2.7 // space for the legend
	for _, load := range []struct {
		label, name string
		color       color.Color
	}{{"saturation", "full", red}, {"20,000 lines/s", "20k", orange}, {"100 lines/s", "100", blue}} {
		for _, reference := range []string{"", "Z-"} {
			var points plotter.XYs
			for i, percentile := range percentiles {
				value, measured := r.Metrics["latency "+reference+load.name+"-"+percentile+"-ms"]
				if !measured {
					return nil, nil
				}
				points = append(points, plotter.XY{X: float64(i), Y: value})
			}
			line, dots, err := plotter.NewLinePoints(points)
			if err != nil {
				return nil, err
			}
			line.Color, dots.Color, dots.Shape = load.color, load.color, draw.CircleGlyph{}
			line.Width = vg.Points(1.5)
			if reference != "" {
				line.Dashes = []vg.Length{vg.Points(4), vg.Points(3)}
			}
			p.Add(line, dots)
			if reference == "" {
				p.Legend.Add(load.label, line)
			}
		}
	}
	return p, nil
}
