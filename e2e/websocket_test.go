package e2e

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/coder/websocket"
)

// A WebSocket passes through each kind of middleware, to the byte.
func TestWebSocket(t *testing.T) {
	for name, m := range middlewares(t) {
		t.Run(name, func(t *testing.T) {
			s := httptest.NewServer(m.Wrap(echo(t)))
			defer s.Close()
			c, resp, err := websocket.Dial(t.Context(), s.URL, nil)
			if err != nil {
				t.Fatal(err)
			}
			defer func() { _ = c.CloseNow() }()
			if resp.Header.Get("RateLimit") == "" {
				t.Errorf("the answer to the handshake does not tell the limit: %v", resp.Header)
			}
			c.SetReadLimit(1 << 20)
			for _, message := range []string{"", "hello", strings.Repeat("long ", 100_000)} {
				if err := c.Write(t.Context(), websocket.MessageText, []byte(message)); err != nil {
					t.Fatal(err)
				}
				if _, got, err := c.Read(t.Context()); err != nil || string(got) != message {
					t.Fatalf("%d bytes came back, %v", len(got), err)
				}
			}
			if err := c.Close(websocket.StatusNormalClosure, ""); err != nil {
				t.Error(err)
			}
		})
	}
}

// A connection that is open holds its permit; when it is closed, the place is free.
func TestWebSocketHoldsItsPermit(t *testing.T) {
	m := middleware(t, limiter(t, "1 concurrent ttl 300ms"), nil) // which is renewed meanwhile
	s := httptest.NewServer(m.Wrap(echo(t)))
	defer s.Close()
	c, _, err := websocket.Dial(t.Context(), s.URL, nil)
	if err != nil {
		t.Fatal(err)
	}
	until := time.Now().Add(time.Second)
	for time.Now().Before(until) {
		_, resp, err := websocket.Dial(t.Context(), s.URL, nil)
		if err == nil || resp == nil || resp.StatusCode != http.StatusTooManyRequests {
			t.Fatalf("a second connection: %v, %v", resp, err)
		}
	}
	if err := c.Close(websocket.StatusNormalClosure, ""); err != nil {
		t.Error(err)
	}
	for until := time.Now().Add(5 * time.Second); ; {
		if c, _, err := websocket.Dial(t.Context(), s.URL, nil); err == nil {
			_ = c.Close(websocket.StatusNormalClosure, "")
			return
		} else if time.Now().After(until) {
			t.Fatal(err)
		}
	}
}
