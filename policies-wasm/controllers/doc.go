// Package controllers holds the built-in controllers, each a package with its
// rule and its tests; its own tests ask all of them as wasm.
package controllers
