// Package page has the page of the service: what is limited and by which rule, what is refused and why, and how the store
// does, for someone who looks after it; and, for one who has the token, limits to change.
//
// It is files alone, embedded as they are written: no build step, no network but the origin. What they show comes from the
// HTTP API, so that the page can do nothing that a client with curl cannot. They ask for it by relative paths, and so work
// below a prefix of a proxy as well. The page is served under a Content-Security-Policy that forbids all that it does not
// do; hence no script or style is inline, and nothing that the API tells is ever read as HTML.
//
// static/page.js is where to begin: it makes the tabs, each a module of its own, and keeps what they share.
//
// The package imports the standard library and server/internal/chart, which has the charts' library.
package page
