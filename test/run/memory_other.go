//go:build !linux

package main

func inMemory() string { return "" }
