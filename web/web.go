// Package web is the page for browsers: the files in dist, which `make web` builds from src,
// embedded in the program, and the handlers that serve them. The files are the same for
// everyone and reveal nothing about runs: the page asks REST, with the cookie of a session.
//
//	src ──make web──▶ dist ──embed──▶ Page ──▶ / /runs/{id} /assets/...
//
// The one rule: the page loads nothing from elsewhere and runs nothing inline, and its
// Content-Security-Policy makes browsers enforce that.
package web

import (
	"bytes"
	"crypto/sha256"
	"embed"
	"encoding/base64"
	"io/fs"
	"net/http"
	"path"
	"time"
)

//go:embed all:dist
var dist embed.FS

// policy permits what the page needs: scripts, styles, fonts and images of its own, images
// within its styles, and requests to its own server. Nothing may frame it.
const policy = "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src 'self' data:; " +
	"font-src 'self'; manifest-src 'none'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"

// types are the media types of the files. Those of the system differ between machines.
var types = map[string]string{
	".html":  "text/html; charset=utf-8",
	".js":    "text/javascript; charset=utf-8",
	".css":   "text/css; charset=utf-8",
	".svg":   "image/svg+xml",
	".woff2": "font/woff2",
	".txt":   "text/plain; charset=utf-8",
}

// index is the document of every path of the page; its script shows the view of the path.
const index = "index.html"

// Page returns the handlers of the page. Each file has an ETag and is revalidated at each use: what a
// document loads at its start is of one version. It loads all that soon; and it asks for the version of the
// server whenever it was without a connection, and offers to reload.
func Page() *http.ServeMux {
	root, err := fs.Sub(dist, "dist")
	if err != nil {
		panic(err) // the path is valid
	}
	return page(root)
}

func page(root fs.FS) *http.ServeMux {
	mux := http.NewServeMux()
	err := fs.WalkDir(root, ".", func(name string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		content, err := fs.ReadFile(root, name)
		if err != nil {
			return err
		}
		file := serve(types[path.Ext(name)], content)
		if name != index {
			mux.Handle("GET /"+name, file)
			return nil
		}
		for _, view := range []string{"/{$}", "/runs/{run}", "/runs/{run}/with/{other}"} {
			mux.Handle("GET "+view, file)
		}
		return nil
	})
	if err != nil {
		panic(err) // embedded files can be read
	}
	return mux
}

// serve returns a handler for GET and HEAD that answers with content.
func serve(media string, content []byte) http.Handler {
	if media == "" {
		media = "application/octet-stream"
	}
	sum := sha256.Sum256(content)
	tag := `"` + base64.RawURLEncoding.EncodeToString(sum[:12]) + `"`
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		h := w.Header()
		h.Set("Content-Type", media)
		h.Set("Content-Security-Policy", policy)
		h.Set("Cross-Origin-Opener-Policy", "same-origin")
		h.Set("Cache-Control", "no-cache")
		h.Set("ETag", tag)
		http.ServeContent(w, r, "", time.Time{}, bytes.NewReader(content))
	})
}
