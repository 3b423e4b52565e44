// Package console serves the console: pages for a browser that show where pods
// are, why they wait and what each policy does. The pages are clients of the API
// like any other, with the rights of whoever is signed in; what is looked at
// several times a second comes in streams of columns and differences.
//
//	berth console ── POST /console/v1/codes ──▶ a code for one use (the certificate stays here)
//	browser ──────── POST /console/v1/session ▶ a cookie for eight hours
//	browser ──────── GET  /console/v1/stream ─▶ a view's frames, four times a second
//
// It keeps true that nothing is told which the user could not list: each frame is
// made from what RBAC lets him see, sums and counts included. It refuses to be a
// way into the rest of the API: a session opens only what the pages ask.
package console
