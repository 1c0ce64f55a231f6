package main

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"time"

	"github.com/linesman/linesman/test/bench/corpus"
)

// corpora are the generated corpora by name, as a number of files.
func (h *harness) corpora(files int, scale float64) (all map[string]input, err error) {
	small, err1 := h.input(corpus.Small(int(scale*float64(h.lines))), files)
	mix, err2 := h.input(corpus.Mix(int(scale*float64(h.lines)/4)), files)
	if err1 != nil {
		return nil, err1
	}
	return map[string]input{"small": small, "mix": mix}, err2
}

// inUp calls measure with a new `up`, and stops that.
func (h *harness) inUp(ctx context.Context, program string, measure func(*cell) error) error {
	c, err := h.up(ctx, program)
	if err != nil {
		return err
	}
	defer c.stop()
	return measure(c)
}

// references measures Z and X, each at a new server.
func (h *harness) references(ctx context.Context, s samples, kinds ...string) error {
	for _, kind := range kinds {
		c, err := h.bare(ctx)
		if err != nil {
			return err
		}
		rate, err := c.reference(ctx, kind, h.lines)
		c.stop()
		if err != nil {
			return err
		}
		s.add(kind, rate)
	}
	return nil
}

// measureTail imports four files at once, and all recordings, as users do.
func measureTail(ctx context.Context, h *harness) (metrics, error) {
	inputs, err := h.corpora(4, 1)
	if err != nil {
		return nil, err
	}
	all := map[string][]input{"small": {inputs["small"]}, "mix": {inputs["mix"]}}
	if all["real"], err = h.recordings(h.copies); err != nil {
		return nil, err
	}
	s := samples{}
	for range h.rounds {
		if err := h.references(ctx, s, refZ, refX); err != nil {
			return nil, err
		}
		for _, name := range []string{"small", "mix", "real"} {
			lines, runs := 0, 0
			for _, in := range all[name] {
				lines, runs = lines+in.lines, runs+len(in.files)
			}
			if err := h.inUp(ctx, h.linesman, func(c *cell) error {
				r, err := c.tail(ctx, h.linesman, all[name]...)
				s.add(name, float64(lines)/r.stored.Seconds())
				s.add(name+"-runs", float64(runs)/r.stored.Seconds())
				return err
			}); err != nil {
				return nil, fmt.Errorf("%s: %w", name, err)
			}
		}
	}
	m := metrics{"real-runs/s": s.median("real-runs"), "Z-msgs/s": s.median(refZ), "X-msgs/s": s.median(refX)}
	for name := range all {
		m[name+"-lines/s"] = s.median(name)
		m[name+"/Z"] = s.median(name) / s.median(refZ)
		m[name+"/X"] = s.median(name) / s.median(refX)
	}
	return m, nil
}

// measureOne writes one run at a time: by the commands of this version and of the old one.
func measureOne(ctx context.Context, h *harness) (metrics, error) {
	inputs, err := h.corpora(1, 2)
	if err != nil {
		return nil, err
	}
	short, err := h.corpora(1, 0.5)
	if err != nil {
		return nil, err
	}
	old, err := h.oldProgram(ctx)
	if err != nil {
		h.say("no comparison with version %s: %v", oldVersion, err)
	}
	s := samples{}
	for range h.rounds {
		if err := h.references(ctx, s, refZ); err != nil {
			return nil, err
		}
		for name, in := range inputs {
			for key, program := range map[string]string{name: h.linesman, "old-" + name: old} {
				if program == "" {
					continue
				}
				if err := h.inUp(ctx, program, func(c *cell) error {
					r, err := c.tail(ctx, program, in)
					s.add(key, float64(in.bytes)/1e6/r.ended.Seconds())
					s.add("stored-"+key, float64(in.bytes)/1e6/r.stored.Seconds())
					return err
				}); err != nil {
					return nil, fmt.Errorf("%s: %w", key, err)
				}
			}
			if err := h.inUp(ctx, h.linesman, func(c *cell) error { return c.commands(ctx, s, name, short[name]) }); err != nil {
				return nil, fmt.Errorf("%s: %w", name, err)
			}
		}
	}
	m := metrics{}
	for name := range inputs {
		m[name+"-MB/s"] = s.median(name)
		m["stored-"+name+"-MB/s"] = s.median("stored-" + name)
		if old != "" {
			m["old-"+name+"-MB/s"] = s.median("old-" + name)
			m[name+"/old"] = s.median(name) / s.median("old-"+name)
			m["stored-"+name+"/old"] = s.median("stored-"+name) / s.median("stored-old-"+name)
		}
		m["pipe-"+name+"/Z"] = s.median("pipe-"+name) / s.median(refZ)
		m["run-"+name+"/Z"] = s.median("run-"+name) / s.median(refZ)
	}
	return m, nil
}

// commands measures `pipe --wait` and `run`, in lines per second.
func (c *cell) commands(ctx context.Context, s samples, name string, in input) error {
	pipe := c.command(c.harness.linesman, "pipe", "--wait")
	pipe.stdin = in.files[0]
	run := c.command(c.harness.linesman, "run", "--agent", "codex", "--", "cat", in.files[0])
	for key, start := range map[string]command{"pipe-": pipe, "run-": run} {
		r, err := c.ingest(ctx, in.events, start)
		if err != nil {
			return fmt.Errorf("%s: %w", key, err)
		}
		s.add(key+name, float64(in.lines)/r.ended.Seconds())
	}
	return nil
}

// measureMany writes 1,000 runs at once, by one command, and starts 50 agents at once.
func measureMany(ctx context.Context, h *harness) (metrics, error) {
	const agents = 50
	many, err := h.input(corpus.Small(h.lines/2), h.runs)
	if err != nil {
		return nil, err
	}
	few, err := h.input(corpus.Small(100), 1)
	if err != nil {
		return nil, err
	}
	s := samples{}
	for range h.rounds {
		if err := h.references(ctx, s, refZ); err != nil {
			return nil, err
		}
		if err := h.inUp(ctx, h.linesman, func(c *cell) error {
			r, err := c.tail(ctx, h.linesman, many)
			if err != nil {
				return err
			}
			s.add("lines", float64(many.lines)/r.stored.Seconds())
			s.add("runs", float64(h.runs)/r.stored.Seconds())
			peak, err := c.roles["up"][0].memory("VmHWM")
			s.add("peak", peak)
			return err
		}); err != nil {
			return nil, fmt.Errorf("tail: %w", err)
		}
		if err := h.inUp(ctx, h.linesman, func(c *cell) error {
			run := c.command(h.linesman, "run", "--agent", "codex", "--", "cat", few.files[0])
			r, err := c.ingest(ctx, agents*few.events, slices.Repeat([]command{run}, agents)...)
			s.add("agents", agents/r.ended.Seconds())
			return err
		}); err != nil {
			return nil, fmt.Errorf("run: %w", err)
		}
	}
	return metrics{
		"tail/Z": s.median("lines") / s.median(refZ), "tail-runs/s": s.median("runs"), "tail-peak-MB": s.median("peak"),
		"run-runs/s": s.median("agents"),
	}, nil
}

// measureReplicas imports four files at once into three servers, each a process of its
// own, with three copies of each stream.
func measureReplicas(ctx context.Context, h *harness) (metrics, error) {
	const servers = 3
	inputs, err := h.corpora(4, 0.5)
	if err != nil {
		return nil, err
	}
	s := samples{}
	in := func(roles bool, measure func(c *cell) error) error {
		c, err := h.cluster(ctx, servers, roles)
		if err != nil {
			return err
		}
		defer c.stop()
		if err := measure(c); err != nil {
			return err
		}
		copies, err := c.copies(ctx)
		if err == nil && copies != servers {
			err = fmt.Errorf("%d copies, want %d", copies, servers)
		}
		return err
	}
	for range h.rounds {
		if err := in(false, func(c *cell) error {
			rate, err := c.reference(ctx, refZ, h.lines/2)
			s.add(refZ, rate)
			return err
		}); err != nil {
			return nil, err
		}
		for name, files := range inputs {
			if err := in(true, func(c *cell) error {
				r, err := c.tail(ctx, h.linesman, files)
				s.add(name, float64(files.lines)/r.stored.Seconds())
				return err
			}); err != nil {
				return nil, fmt.Errorf("%s: %w", name, err)
			}
		}
	}
	m := metrics{"Z-msgs/s": s.median(refZ)}
	for name := range inputs {
		m[name+"-lines/s"], m[name+"/Z"] = s.median(name), s.median(name)/s.median(refZ)
	}
	return m, nil
}

// measureCPU imports four files at once by roles that are processes of their own, and
// divides what each has used by the lines.
func measureCPU(ctx context.Context, h *harness) (metrics, error) {
	inputs, err := h.corpora(4, 1)
	if err != nil {
		return nil, err
	}
	s := samples{}
	roles := []string{"server", "normalizer", "responder"}
	for range h.rounds {
		for name, in := range inputs {
			c, err := h.cluster(ctx, 1, true)
			if err != nil {
				return nil, err
			}
			err = c.usage(ctx, s, name, in, roles)
			c.stop()
			if err != nil {
				return nil, err
			}
		}
	}
	m := metrics{}
	for name := range inputs {
		for _, role := range append(roles, "worker") {
			used := s.median(name + "-" + role)
			m[name+"-"+role+"-us/line"] = used
			if role != "responder" {
				m[name+"-us/line"] += used
			}
		}
	}
	return m, nil
}

// usage measures the CPU time of each role, in microseconds a line.
func (c *cell) usage(ctx context.Context, s samples, name string, in input, roles []string) error {
	before := map[string]time.Duration{}
	for _, role := range roles {
		used, err := c.cpu(role)
		if err != nil {
			return err
		}
		before[role] = used
	}
	r, err := c.tail(ctx, c.harness.linesman, in)
	if err != nil {
		return err
	}
	add := func(role string, used time.Duration) {
		s.add(name+"-"+role, float64(used.Microseconds())/float64(in.lines))
	}
	for _, role := range roles {
		used, err := c.cpu(role)
		if err != nil {
			return err
		}
		add(role, used-before[role])
	}
	used, err := r.procs[0].cpu()
	add("worker", used)
	return err
}

// measureNormalize compares the CPU time of `normalize` and of jq, without NATS.
func measureNormalize(ctx context.Context, h *harness) (metrics, error) {
	inputs, err := h.corpora(1, 1)
	if err != nil {
		return nil, err
	}
	programs := map[string]command{"normalize": {program: h.linesman, args: []string{"normalize"}}}
	if path, err := exec.LookPath("jq"); err == nil {
		programs["jq"] = command{program: path, args: []string{"-c", "."}}
	} else {
		h.say("no comparison with jq: it is not installed")
	}
	s := samples{}
	for range h.rounds {
		for name, in := range inputs {
			for key, start := range programs {
				start.stdin = in.files[0]
				p, err := h.start(ctx, start)
				if err != nil {
					return nil, err
				}
				if err := p.wait(); err != nil {
					return nil, err
				}
				used, err := p.cpu()
				if err != nil {
					return nil, err
				}
				s.add(name+"-"+key, used.Seconds())
			}
		}
	}
	m := metrics{}
	for name, in := range inputs {
		m[name+"-GB/s"] = float64(in.bytes) / 1e9 / s.median(name+"-normalize")
		if _, has := programs["jq"]; has {
			m[name+"-jq/normalize"] = s.median(name+"-jq") / s.median(name+"-normalize")
		}
	}
	return m, nil
}

// measureMemory imports files one by one, and measures the memory of `up` fresh, at its
// peak, and a minute later.
func measureMemory(ctx context.Context, h *harness) (metrics, error) {
	m := metrics{}
	files := make([]input, 3)
	for i := range files {
		var err error
		if files[i], err = h.input(corpus.Mix(h.memoryBytes/1800), 1); err != nil {
			return nil, err
		}
	}
	var err error
	if m["binary-MB"], err = binarySize(h.linesman); err != nil {
		return nil, err
	}
	err = h.inUp(ctx, h.linesman, func(c *cell) (err error) {
		up := c.roles["up"][0]
		if m["fresh-MB"], err = up.memory("VmRSS"); err != nil {
			return err
		}
		for _, in := range files {
			if _, err := c.tail(ctx, h.linesman, in); err != nil {
				return err
			}
		}
		if m["peak-MB"], err = up.memory("VmHWM"); err != nil {
			return err
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(h.memoryWait):
		}
		m["later-MB"], err = up.memory("VmRSS")
		return err
	})
	return m, err
}

// oldProgram builds the program of the version that this one is compared with.
func (h *harness) oldProgram(ctx context.Context) (string, error) {
	program := filepath.Join(h.dir, "linesman-old")
	if _, err := os.Stat(program); err == nil {
		return program, nil
	}
	source := filepath.Join(h.dir, "old")
	if err := os.Mkdir(source, 0o700); err != nil {
		return "", err
	}
	defer os.RemoveAll(source)
	archive := exec.CommandContext(ctx, "sh", "-c", `git archive "$0" | tar -x -C "$1"`, oldVersion, source)
	if out, err := archive.CombinedOutput(); err != nil {
		return "", fmt.Errorf("git archive: %w\n%s", err, out)
	}
	return program, build(ctx, source, program)
}
