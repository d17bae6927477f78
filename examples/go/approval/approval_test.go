package approval_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"approvals.example/agent"
	"approvals.example/agent/tool"
	"approvals.example/agent/types"
	"approvals.example/approval"
)

type object = map[string]any

// person answers requests of the real gateway, as an approver.
type person struct{ t *testing.T }

func (p person) api(method, path string, body any) object {
	text, _ := json.Marshal(body)
	call, _ := http.NewRequest(method, os.Getenv("GATEWAY_URL")+"/v1"+path, bytes.NewReader(text))
	call.Header.Set("Authorization", "Bearer "+os.Getenv("APPROVER_TOKEN"))
	call.Header.Set("Content-Type", "application/json")
	answer, err := http.DefaultClient.Do(call)
	if err != nil {
		p.t.Error(err)
		return nil
	}
	defer answer.Body.Close()
	said, _ := io.ReadAll(answer.Body)
	var value object
	if json.Unmarshal(said, &value) != nil || answer.StatusCode/100 != 2 {
		p.t.Errorf("%s %s: %s %s", method, path, answer.Status, said)
	}
	return value
}

// waiting returns a pending request that holds all words, once there is one.
func (p person) waiting(words ...string) object {
	for range 2000 {
		found, _ := p.api("GET", "/requests", nil)["items"].([]any)
		for _, one := range found {
			text, _ := json.Marshal(one)
			all := true
			for _, word := range words {
				all = all && strings.Contains(string(text), word)
			}
			if all {
				shown := one.(object)
				shown["id"] = shown["request"].(object)["id"]
				return shown
			}
		}
		time.Sleep(5 * time.Millisecond)
	}
	p.t.Errorf("nothing waits that says %q", words)
	return object{}
}

func (p person) answer(action, message string, words ...string) object {
	one := p.waiting(words...)
	body := object{"action": action, "revision": one["revision"], "message": message}
	p.api("POST", fmt.Sprintf("/requests/%v/decide", one["id"]), body)
	return one
}

func (p person) view(id any) object { return p.api("GET", fmt.Sprintf("/requests/%v", id), nil) }

func setUp(t *testing.T) (*approval.Client, person) {
	url, token := os.Getenv("GATEWAY_URL"), os.Getenv("GATEWAY_TOKEN")
	if url == "" || token == "" {
		t.Skip("GATEWAY_URL and GATEWAY_TOKEN name no gateway")
	}
	client := approval.New(url, token)
	client.Timeout = 20 * time.Second
	return client, person{t}
}

// deed is a tool that counts how often it ran, and may ask from inside.
type deed struct {
	name   string
	marked bool
	inside func(ctx context.Context) error
	ran    *atomic.Int32
}

func (d deed) Info() tool.Info {
	info := tool.NewInfo(d.name, "does something", struct{}{})
	info.RequireConfirmation = d.marked
	return info
}

func (d deed) Run(ctx context.Context, call tool.Call) (tool.Response, error) {
	if d.inside != nil {
		if err := d.inside(ctx); err != nil {
			return tool.Response{}, err
		}
	}
	d.ran.Add(1)
	return tool.NewTextResponse("done"), nil
}

func newDeed(name string) deed { return deed{name: name, marked: true, ran: &atomic.Int32{}} }

// says returns a model that makes these calls, once.
func says(calls ...tool.Call) agent.Model {
	var made atomic.Bool
	return func([]string) []tool.Call {
		if made.Swap(true) {
			return nil
		}
		return calls
	}
}

func input(t *testing.T, word string) string { return fmt.Sprintf(`{"what":"%s %s"}`, t.Name(), word) }

func expect(t *testing.T, what string, got, want any) {
	t.Helper()
	if got != want {
		t.Errorf("%s: %v, not %v", what, got, want)
	}
}

// A marked tool runs after a yes and not after a no; the model reads a no's words.
func TestDeclaredConfirmation(t *testing.T) {
	client, ann := setUp(t)
	for _, row := range []struct{ action, message, told string }{
		{"approve", "", "done"},
		{"deny", "", "rejected by user"},
		{"deny", "not on a Friday", "error: denied by ann (person): not on a Friday"},
	} {
		one, word := newDeed("delete"), row.action+row.message
		made := agent.New(says(tool.Call{ID: word, Name: "delete", Input: input(t, word)}),
			agent.WithTools(one), agent.WithConfirmationProvider(client.Confirm))
		go ann.answer(row.action, row.message, input(t, word)[9:])
		expect(t, "told", made.Chat(context.Background()), row.told)
		expect(t, "ran", one.ran.Load() == 1, row.action == "approve")
	}
}

// A marked tool that also asks twice from inside asks three times within one call; each is a question of its
// own, with its hint and payload, and a no to the second halts the tool.
func TestTwoQuestionsWithOneCallID(t *testing.T) {
	client, ann := setUp(t)
	one := newDeed("transfer")
	one.inside = func(ctx context.Context) error {
		if err := tool.RequestConfirmation(ctx, "an old account", nil); err != nil {
			return err
		}
		return tool.RequestConfirmation(ctx, "a large transfer", object{"amount": 20000})
	}
	for action, told := range map[string]string{"approve": "done", "deny": "rejected by user"} {
		call := tool.Call{ID: "c-" + action, Name: "transfer", Input: input(t, action)}
		made := agent.New(says(call), agent.WithTools(one), agent.WithConfirmationProvider(client.Confirm))
		go func() {
			first := ann.answer("approve", "", input(t, action)[9:])
			ann.answer("approve", "", input(t, action)[9:], "an old account")
			second := ann.answer(action, "", input(t, action)[9:], "a large transfer", "20000")
			if first["id"] == second["id"] {
				t.Error("one request for two questions")
			}
		}()
		expect(t, "told", made.Chat(context.Background()), told)
	}
	expect(t, "ran", one.ran.Load(), int32(1))
}

// A toolset that is marked as a whole asks for each of its tools.
func TestToolset(t *testing.T) {
	client, ann := setUp(t)
	one := newDeed("format")
	one.marked = false
	set := tool.WithConfirmation(tool.NewToolset("dangerous", one))
	made := agent.New(says(tool.Call{ID: "c", Name: "format", Input: input(t, "x")}),
		agent.WithToolsets(set), agent.WithConfirmationProvider(client.Confirm))
	go ann.answer("deny", "", input(t, "x")[9:])
	expect(t, "told", made.Chat(context.Background()), "rejected by user")
	expect(t, "ran", one.ran.Load(), int32(0))
}

// The event comes before anybody is asked, and says what will be.
func TestTheEventComesBeforeTheQuestion(t *testing.T) {
	client, ann := setUp(t)
	one := newDeed("drop")
	made := agent.New(says(tool.Call{ID: "c", Name: "drop", Input: input(t, "x")}),
		agent.WithTools(one), agent.WithConfirmationProvider(client.Confirm))
	var seen []types.EventType
	for event := range made.ChatStream(context.Background()) {
		seen = append(seen, event.Type)
		if event.Type == types.EventConfirmationRequired {
			expect(t, "input", event.ConfirmationRequest.Input, input(t, "x"))
			go ann.answer("approve", "", input(t, "x")[9:])
		}
	}
	expect(t, "events", fmt.Sprint(seen), "[confirmation_required complete]")
	expect(t, "ran", one.ran.Load(), int32(1))
}

// A hook that denies spares people the question; what a hook changed is what they are asked about.
func TestHooksComeFirst(t *testing.T) {
	client, ann := setUp(t)
	one := newDeed("purge")
	hook := func(_ context.Context, call tool.Call) (string, string) {
		if strings.Contains(call.Input, "never") {
			return "", "the rate is limited"
		}
		return strings.Replace(call.Input, "raw", "cooked", 1), ""
	}
	run := func(word string) string {
		return agent.New(says(tool.Call{ID: word, Name: "purge", Input: input(t, word)}), agent.WithTools(one),
			agent.WithHooks(hook), agent.WithConfirmationProvider(client.Confirm)).Chat(context.Background())
	}
	expect(t, "told", run("never"), "the rate is limited")
	go ann.answer("approve", "", input(t, "cooked")[9:])
	expect(t, "told", run("raw"), "done")
}

// Tools side by side have questions side by side, each with its own answer.
func TestParallelTools(t *testing.T) {
	client, ann := setUp(t)
	one := newDeed("write")
	var calls []tool.Call
	for _, word := range []string{"first", "second", "third"} {
		calls = append(calls, tool.Call{ID: word, Name: "write", Input: input(t, word)})
	}
	made := agent.New(says(calls...), agent.WithTools(one), agent.WithConfirmationProvider(client.Confirm))
	go func() {
		for _, call := range calls { // all three wait before one is answered
			ann.waiting(call.Input[9:])
		}
		ann.answer("deny", "", calls[2].Input[9:])
		ann.answer("approve", "", calls[0].Input[9:])
		ann.answer("deny", "", calls[1].Input[9:])
	}()
	expect(t, "told", made.Chat(context.Background()), "done\nrejected by user\nrejected by user")
}

// After a handoff the new agent's provider is asked. Where it has none a marked tool runs: so the
// SDK's document has it. A guarded one does not.
func TestHandoff(t *testing.T) {
	client, ann := setUp(t)
	one, asked := newDeed("ship"), atomic.Int32{}
	first := func(context.Context, tool.ConfirmationRequest) (bool, error) { asked.Add(1); return false, nil }
	chat := func(word string, options ...agent.Option) string {
		to := agent.New(says(tool.Call{ID: word, Name: "ship", Input: input(t, word)}), options...)
		return agent.New(says(tool.Call{Name: "transfer_to_second"}), agent.WithTools(one),
			agent.WithConfirmationProvider(first), agent.WithHandoff("second", to)).Chat(context.Background())
	}
	go ann.answer("deny", "", input(t, "a")[9:])
	expect(t, "told", chat("a", agent.WithTools(one), agent.WithConfirmationProvider(client.Confirm)), "rejected by user")
	expect(t, "told", chat("b", agent.WithTools(one)), "done")
	told := chat("c", agent.WithTools(client.Guard(one)))
	expect(t, "told", told, "error: ship was not approved: its agent has no confirmation provider")
	expect(t, "ran", one.ran.Load(), int32(1))
	expect(t, "asked", asked.Load(), int32(0))
}

// A guarded tool runs once for one approval, and what became of it is reported.
func TestGuard(t *testing.T) {
	client, ann := setUp(t)
	one := newDeed("deploy")
	one.marked = false
	guarded := client.Guard(one)
	call := tool.Call{ID: "c", Name: "deploy", Input: input(t, "x")}
	answered := make(chan object, 1)
	go func() { answered <- ann.answer("approve", "", input(t, "x")[9:]) }()
	made := agent.New(says(call), agent.WithTools(guarded), agent.WithConfirmationProvider(client.Confirm))
	expect(t, "told", made.Chat(context.Background()), "done")
	report, _ := ann.view((<-answered)["id"])["report"].(object)
	expect(t, "reported", report["execution"], "succeeded")
	if _, err := guarded.Run(context.Background(), call); err == nil {
		t.Error("it ran twice for one approval")
	}
	expect(t, "ran", one.ran.Load(), int32(1))
}

// The same call again is not asked again, and its approval is of no more use.
func TestARepeatedCallRunsOnce(t *testing.T) {
	client, ann := setUp(t)
	req := tool.ConfirmationRequest{ToolCallID: "c", ToolName: "pay", Input: input(t, "x")}
	go ann.answer("approve", "", input(t, "x")[9:])
	if yes, err := client.Confirm(context.Background(), req); !yes || err != nil {
		t.Errorf("not approved: %v", err)
	}
	later := approval.New(client.URL, client.Token) // as after a crash
	later.Session = client.Session
	yes, err := later.Confirm(context.Background(), req)
	if yes || err == nil || !strings.Contains(err.Error(), "approval_used") {
		t.Errorf("approved %v, %v", yes, err)
	}
}

// Who died while it waited has taken nothing: another process takes the approval, and it runs once.
func TestAnApprovalThatNobodyTookRunsAfterACrash(t *testing.T) {
	client, ann := setUp(t)
	req := tool.ConfirmationRequest{ToolCallID: "c", ToolName: "pay", Input: input(t, "x")}
	dead, err := net.Listen("tcp", "127.0.0.1:0") // between the first client and the gateway
	if err != nil {
		t.Fatal(err)
	}
	gateway, _ := url.Parse(client.URL)
	proxy := httptest.NewUnstartedServer(httputil.NewSingleHostReverseProxy(gateway))
	proxy.Listener = dead
	proxy.Start()
	first := approval.New(proxy.URL, client.Token)
	first.Session, first.Patience = client.Session, 20*time.Millisecond
	gone := make(chan bool)
	go func() { yes, _ := first.Confirm(context.Background(), req); gone <- yes }()
	ann.waiting(input(t, "x")[9:])
	proxy.CloseClientConnections() // as a process that is killed: it withdraws nothing
	proxy.Config.Close()
	if <-gone {
		t.Error("approved without an answer")
	}
	ann.answer("approve", "", input(t, "x")[9:])
	if yes, err := client.Confirm(context.Background(), req); !yes || err != nil {
		t.Errorf("not approved: %v", err)
	}
	if yes, _ := first.Confirm(context.Background(), req); yes {
		t.Error("approved without a gateway")
	}
}

// Whoever gives up withdraws the question; nothing is left waiting.
func TestGivingUpWithdraws(t *testing.T) {
	client, ann := setUp(t)
	ctx, stop := context.WithCancel(context.Background())
	gone := make(chan object, 1)
	go func() { gone <- ann.waiting(input(t, "x")[9:]); stop() }()
	req := tool.ConfirmationRequest{ToolCallID: "c", ToolName: "pay", Input: input(t, "x")}
	if yes, err := client.Confirm(ctx, req); yes || err == nil {
		t.Errorf("approved %v, %v", yes, err)
	}
	expect(t, "status", ann.view((<-gone)["id"])["status"], "cancelled")
}

// Nobody's answer is not told as a person's no.
func TestTimeOver(t *testing.T) {
	client, _ := setUp(t)
	client.Timeout = 300 * time.Millisecond
	req := tool.ConfirmationRequest{ToolCallID: "c", ToolName: "pay", Input: input(t, "x")}
	yes, err := client.Confirm(context.Background(), req)
	if yes || err == nil || !strings.Contains(err.Error(), "expired") {
		t.Errorf("approved %v, %v", yes, err)
	}
}

// What is no object, or reads differently in other parsers, is asked of nobody.
func TestBadInput(t *testing.T) {
	client, _ := setUp(t)
	for _, bad := range []string{`[]`, `null`, `7`, `{`, `no json`, `{"a":1,"a":2}`, `{"a":9007199254740993}`, "{\"a\":\"\\ud800\"}"} {
		req := tool.ConfirmationRequest{ToolCallID: "c", ToolName: "pay", Input: bad}
		if yes, err := client.Confirm(context.Background(), req); yes || err == nil || !strings.Contains(err.Error(), "nobody was asked") {
			t.Errorf("%s: approved %v, %v", bad, yes, err)
		}
	}
	for _, payload := range []any{make(chan int), func() {}} {
		req := tool.ConfirmationRequest{ToolCallID: "c", ToolName: "pay", Input: "{}", Payload: payload}
		if yes, err := client.Confirm(context.Background(), req); yes || err == nil {
			t.Errorf("approved %v, %v", yes, err)
		}
	}
}

// A gateway that lies, breaks off, redirects or is not there approves nothing.
func TestALyingGateway(t *testing.T) {
	id, digest := strings.Repeat("a", 32), strings.Repeat("b", 64)
	echoed := func(changes object) object {
		request := object{"id": id, "tool": "pay", "digest": digest, "arguments": object{"a": 1}}
		for name, value := range changes {
			request[name] = value
		}
		return object{"request": request, "arguments": `{"a":1}`}
	}
	prepared := echoed(nil)
	ended := func(changes object) object {
		decision := object{"request_id": id, "status": "approved", "action": "approve", "digest": digest,
			"decided_by": object{"kind": "person", "name": "ann"}}
		for name, value := range changes {
			decision[name] = value
		}
		return object{"id": id, "status": decision["status"], "decision": decision}
	}
	confirm := func(prepare, state any) (bool, error) {
		server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			said := state
			if strings.HasSuffix(r.URL.Path, "/prepare") {
				said = prepare
			}
			if status, ok := said.(int); ok {
				w.Header().Set("Location", "/elsewhere")
				w.WriteHeader(status)
				return
			}
			text, _ := json.Marshal(said)
			w.Write(text)
		}))
		defer server.Close()
		client := approval.New(server.URL, "token")
		client.Patience = 20 * time.Millisecond
		return client.Confirm(context.Background(), tool.ConfirmationRequest{ToolCallID: "c", ToolName: "pay", Input: `{"a":1.0}`})
	}
	if yes, err := confirm(prepared, ended(nil)); !yes || err != nil {
		t.Errorf("a true approval: %v, %v", yes, err)
	}
	for name, row := range map[string][2]any{
		"other arguments":    {echoed(object{"arguments": object{"a": 2}}), ended(nil)},
		"more arguments":     {echoed(object{"arguments": object{"a": 1, "b": nil}}), ended(nil)},
		"no arguments":       {echoed(object{"arguments": nil}), ended(nil)},
		"other tool":         {echoed(object{"tool": "p"}), ended(nil)},
		"no request":         {object{"arguments": `{"a":1}`}, ended(nil)},
		"other id":           {prepared, ended(object{"request_id": "x"})},
		"other digest":       {prepared, ended(object{"digest": "x"})},
		"an edit":            {prepared, ended(object{"action": "edit"})},
		"changed arguments":  {prepared, ended(object{"arguments": object{"a": 2}})},
		"an answer":          {prepared, ended(object{"action": "respond"})},
		"no action":          {prepared, ended(object{"action": nil})},
		"no decision":        {prepared, object{"id": id, "status": "approved"}},
		"denied within":      {prepared, object{"id": id, "status": "approved", "decision": ended(object{"status": "denied"})["decision"]}},
		"a text":             {prepared, "approved"},
		"a list":             {prepared, []any{ended(nil)}},
		"prepare redirects":  {302, ended(nil)},
		"submit redirects":   {prepared, 307},
		"unauthorized":       {401, ended(nil)},
		"broken":             {prepared, 500},
		"too many":           {prepared, 429},
		"prepare is unknown": {404, ended(nil)},
	} {
		if yes, err := confirm(row[0], row[1]); yes || err == nil {
			t.Errorf("%s: approved %v, %v", name, yes, err)
		}
	}
	nowhere := approval.New("http://127.0.0.1:1", "token")
	nowhere.Patience = time.Millisecond
	if yes, err := nowhere.Confirm(context.Background(), tool.ConfirmationRequest{ToolName: "pay", ToolCallID: "c"}); yes || err == nil {
		t.Errorf("approved %v, %v", yes, err)
	}
}
