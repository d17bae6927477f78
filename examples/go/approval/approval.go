// Package approval asks people for approval over a gateway's HTTP API. Import your SDK's tool package.
package approval

import (
	"bytes"
	"cmp"
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log"
	"net/http"
	"os"
	"reflect"
	"sync"
	"time"

	"approvals.example/agent/tool"
)

// Client asks as one agent. Session names a conversation: a call of the same id in it is the same
// call, and runs once. Timeout is how long people have, Patience how long the gateway may be silent.
type Client struct {
	URL, Token, Session string
	Timeout, Patience   time.Duration
	process             string
	guarded, approved   sync.Map // names of tools; calls that may run, with id of the request
}

// New returns a client with a session of its own, and 15 minutes for people.
func New(url, token string) *Client {
	process := fmt.Sprintf("%x", rand.Text())
	return &Client{URL: url, Token: token, Session: "go-" + process, process: process,
		Timeout: 15 * time.Minute, Patience: 30 * time.Second}
}

// state is a request as the gateway writes it, and how it stands.
type state struct {
	ID, Tool, Digest, Status string
	Arguments                map[string]any
	Decision                 struct {
		RequestID                               string                      `json:"request_id"`
		DecidedBy                               struct{ Kind, Name string } `json:"decided_by"`
		Status, Action, Reason, Digest, Message string
		Arguments                               json.RawMessage
	}
}

// Confirm is the ConfirmationProvider. It returns false where a person said no without a word, and
// an error, which the model reads, for every other end: what is no approval is never true.
func (c *Client) Confirm(ctx context.Context, req tool.ConfirmationRequest) (bool, error) {
	ctx, stop := context.WithTimeout(ctx, c.Timeout+2*time.Second)
	defer stop()
	asked, whole, err := c.prepare(ctx, req)
	if err != nil {
		return false, fmt.Errorf("nobody was asked: %w", err)
	}
	now, path := state{}, "/"+asked.ID // detached: an answer hands nothing out, `consume` does
	err = c.call(ctx, "POST", "", map[string]any{"request": whole, "process": c.process, "detached": true}, &now)
	if now.Status == "pending" {
		log.Printf("%q waits: answer at %s/inbox, or where the gateway runs: gateway approve %s", req.ToolName, c.URL, asked.ID)
	}
	for err == nil && now.Status == "pending" {
		err = c.call(ctx, "GET", path+"?wait=50&process="+c.process, nil, &now)
	}
	if err == nil && now.Status == "approved" { // taken just before it runs, and once
		now = state{}
		err = c.call(ctx, "POST", path+"/consume", map[string]any{"process": c.process, "once": true}, &now)
	}
	if err != nil {
		last, stop := context.WithTimeout(context.WithoutCancel(ctx), 5*time.Second)
		defer stop()
		if errors.Is(ctx.Err(), context.DeadlineExceeded) {
			err = errors.New("its time has expired")
		}
		gone := c.call(last, "POST", path+"/cancel", map[string]string{"reason": "abandoned"}, &now)
		return false, fmt.Errorf("no answer: %w (question withdrawn: %t)", err, gone == nil)
	}
	d := now.Decision
	switch {
	case now.ID != asked.ID || d.RequestID != asked.ID || d.Status != now.Status:
		return false, errors.New("the gateway answered something else than was asked")
	case d.Status == "denied" && d.DecidedBy.Kind == "person" && d.Message == "" && d.Action == "deny":
		return false, nil
	case d.Status != "approved":
		return false, fmt.Errorf("%s by %s (%s): %s", d.Status, d.DecidedBy.Name, d.Reason, d.Message)
	case d.Action != "approve" || d.Digest != asked.Digest || d.Arguments != nil:
		return false, errors.New("the gateway approved something else than was asked")
	}
	c.note(req, asked.ID)
	return true, nil
}

// prepare has the gateway write the canonical request, and sees that it is about this very call.
func (c *Client) prepare(ctx context.Context, req tool.ConfirmationRequest) (asked state, whole json.RawMessage, err error) {
	req.Input = cmp.Or(req.Input, "{}")
	payload, err := json.Marshal(req.Payload)
	folder, _ := os.Getwd()
	host, _ := os.Hostname()
	part := sha256.Sum256([]byte(req.Hint + "\x00" + string(payload))) // of the questions in one call
	wanted := map[string]any{"tool": req.ToolName, "arguments": json.RawMessage(req.Input), "hint": req.Hint,
		"session": c.Session, "call_id": req.ToolCallID, "part": fmt.Sprintf("%x", part),
		"context": map[string]string{"cwd": folder, "host": host},
		"origin":  map[string]string{"framework": "go"}, "timeout": c.Timeout.Seconds()}
	if req.Payload != nil {
		wanted["payload"] = map[string]json.RawMessage{"asked_inside": payload}
	}
	var answer struct{ Request json.RawMessage }
	var mine map[string]any
	if err == nil {
		err = c.call(ctx, "POST", "/prepare", map[string]any{"request": wanted}, &answer)
	}
	if err == nil {
		err = errors.Join(json.Unmarshal([]byte(req.Input), &mine), json.Unmarshal(answer.Request, &asked))
	}
	if err == nil && (asked.Tool != req.ToolName || mine == nil || !reflect.DeepEqual(mine, asked.Arguments)) {
		err = errors.New("the gateway read the call differently")
	}
	return asked, answer.Request, err
}

// call calls the API, and again while the gateway does not respond.
func (c *Client) call(ctx context.Context, method, path string, body, into any) error {
	text, err := json.Marshal(body)
	for began := time.Now(); err == nil; time.Sleep(c.Patience / 60) {
		call, err := http.NewRequestWithContext(ctx, method, c.URL+"/v1/requests"+path, bytes.NewReader(text))
		if err != nil {
			return err
		}
		call.Header = http.Header{"Authorization": {"Bearer " + c.Token}, "Content-Type": {"application/json"}}
		status := 0
		answer, err := http.DefaultTransport.RoundTrip(call) // which follows no redirect
		if err == nil {
			said, broken := io.ReadAll(io.LimitReader(answer.Body, 4<<20))
			answer.Body.Close()
			if status = answer.StatusCode; broken == nil && status/100 == 2 {
				return json.Unmarshal(said, into)
			}
			err = cmp.Or(broken, fmt.Errorf("status %d: %s", status, said))
		}
		if status/100 == 3 || status/100 == 4 && status != 429 || ctx.Err() != nil || time.Since(began) > c.Patience {
			return err
		}
	}
	return err
}
