package fiberlimit

import (
	"github.com/valyala/fasthttp"

	"github.com/tidegate-go/tidegate/httplimit"
)

// afterStream leaves Done to the end of a response whose body is streamed, which fasthttp sends after the handler; false where
// the body is there already, or where nobody would tell of its end.
//
// fasthttp has no hook for that, but it closes the values of a request when it forgets them, which it does when the response is
// written, the connection is broken, or, of one that was hijacked, over.
func afterStream(ctx *fasthttp.RequestCtx, p *httplimit.Passage, status int) bool {
	switch {
	case !ctx.Response.IsBodyStream():
		return false
	case ctx.ConnRequestNum() == 0: // of no server: fiber's adaptor to net/http keeps the values until it needs their place
		return false
	case ctx.LastTimeoutErrorResponse() != nil: // answered already, so that this one is sent to nobody, and is never forgotten
		return false
	}
	ctx.SetUserValue(p, &atEnd{p, status}) // each passage has its own, since there may be several middlewares
	return true
}

// atEnd is closed when the response is complete.
type atEnd struct {
	passage *httplimit.Passage
	status  int
}

// Close gives back what the request held.
func (e *atEnd) Close() error {
	e.passage.Done(e.status)
	return nil
}
