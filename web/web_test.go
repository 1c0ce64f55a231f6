package web

import (
	"bytes"
	"io/fs"
	"net/http"
	"net/http/httptest"
	"path"
	"regexp"
	"strings"
	"testing"
	"testing/fstest"
)

var sample = fstest.MapFS{
	"index.html":         {Data: []byte("<!doctype html><title>x</title>")},
	"favicon.svg":        {Data: []byte("<svg/>")},
	"assets/app.js":      {Data: []byte("1")},
	"assets/app.css":     {Data: []byte("p{}")},
	"assets/inter.woff2": {Data: []byte("font")},
	"assets/other.bin":   {Data: []byte("?")},
}

func get(h http.Handler, method, path string, header ...string) *httptest.ResponseRecorder {
	r := httptest.NewRequest(method, path, nil)
	for i := 0; i < len(header); i += 2 {
		r.Header.Set(header[i], header[i+1])
	}
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	return w
}

func TestFilesHaveTheirTypesAndOthersAreNotFound(t *testing.T) {
	for _, c := range []struct {
		path, file, media string
		code              int
	}{
		{"/", "index.html", "text/html; charset=utf-8", 200},
		{"/runs/T-local-1", "index.html", "text/html; charset=utf-8", 200},
		{"/runs/a/with/b", "index.html", "text/html; charset=utf-8", 200},
		{"/favicon.svg", "favicon.svg", "image/svg+xml", 200},
		{"/assets/app.js", "assets/app.js", "text/javascript; charset=utf-8", 200},
		{"/assets/app.css", "assets/app.css", "text/css; charset=utf-8", 200},
		{"/assets/inter.woff2", "assets/inter.woff2", "font/woff2", 200},
		{"/assets/other.bin", "assets/other.bin", "application/octet-stream", 200},
		{"/index.html", "", "", 404},
		{"/runs", "", "", 404},
		{"/runs/", "", "", 404},
		{"/runs/a/b", "", "", 404},
		{"/assets/", "", "", 404},
		{"/assets/absent.js", "", "", 404},
		{"/dist/index.html", "", "", 404},
	} {
		w := get(page(sample), "GET", c.path)
		if w.Code != c.code {
			t.Errorf("%s: status %d, want %d", c.path, w.Code, c.code)
		}
		if c.code != http.StatusOK {
			continue
		}
		if !bytes.Equal(w.Body.Bytes(), sample[c.file].Data) || w.Header().Get("Content-Type") != c.media {
			t.Errorf("%s: %s %q", c.path, w.Header().Get("Content-Type"), w.Body)
		}
		for name, want := range map[string]string{"Content-Security-Policy": policy, "Cache-Control": "no-cache"} {
			if got := w.Header().Get(name); got != want {
				t.Errorf("%s: %s is %q, want %q", c.path, name, got, want)
			}
		}
		tag := w.Header().Get("ETag")
		if again := get(page(sample), "GET", c.path, "If-None-Match", tag); tag == "" ||
			again.Code != http.StatusNotModified || again.Body.Len() > 0 {
			t.Errorf("%s with ETag %q: %d", c.path, tag, again.Code)
		}
		if w := get(page(sample), "HEAD", c.path); w.Code != http.StatusOK || w.Body.Len() > 0 ||
			w.Header().Get("ETag") != tag {
			t.Errorf("HEAD %s: %d, %d bytes", c.path, w.Code, w.Body.Len())
		}
		if w := get(page(sample), "POST", c.path); w.Code != http.StatusMethodNotAllowed {
			t.Errorf("POST %s: %d", c.path, w.Code)
		}
	}
}

func TestTagsAreThoseOfTheContent(t *testing.T) {
	changed := fstest.MapFS{"index.html": {Data: []byte("other")}}
	tag := func(files fs.FS) string { return get(page(files), "GET", "/").Header().Get("ETag") }
	if a, b := tag(sample), tag(changed); a == b {
		t.Errorf("both are %s", a)
	}
}

// The page needs no permission that its policy does not give: nothing inline, nothing from
// elsewhere. Every file has a known type.
func TestBuiltFilesFitTheirPolicy(t *testing.T) {
	inline := regexp.MustCompile(`(?i)<script(?:\s[^>]*)?>\s*[^<\s]|<style|\sstyle=|\son[a-z]+=|javascript:`)
	elsewhere := regexp.MustCompile(`(?i)(?:src|href)="?(?:https?:)?//|url\(["']?(?:https?:)?//|@import|sourceMappingURL`)
	err := fs.WalkDir(dist, "dist", func(name string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		if types[path.Ext(name)] == "" {
			t.Errorf("%s has no type", name)
		}
		b, err := fs.ReadFile(dist, name)
		if err != nil {
			return err
		}
		if found := elsewhere.Find(b); found != nil {
			t.Errorf("%s: %q", name, found)
		}
		if found := inline.Find(b); found != nil && strings.HasSuffix(name, ".html") {
			t.Errorf("%s: %q", name, found)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if w := get(Page(), "GET", "/"); w.Code != http.StatusOK {
		t.Errorf("/: %d", w.Code)
	}
}
