// Package agent is a stand-in for the SDK's agent, as its document on tool confirmation describes
// it: hooks, then confirmation, then the tool; tools side by side; handoffs; events.
package agent

import (
	"context"
	"errors"
	"strings"
	"sync"

	"approvals.example/agent/tool"
	"approvals.example/agent/types"
)

// ConfirmationProvider blocks until somebody has decided. An error fails the call.
type ConfirmationProvider func(ctx context.Context, req tool.ConfirmationRequest) (bool, error)

// PreToolUse runs before confirmation. It returns the input that goes on, and why the call is
// denied, which is empty where it is not.
type PreToolUse func(ctx context.Context, call tool.Call) (input, denied string)

// Model returns the next calls, given what the calls before returned; none ends the chat.
type Model func(results []string) []tool.Call

// Agent runs the calls of a model.
type Agent struct {
	model    Model
	tools    map[string]tool.BaseTool
	provider ConfirmationProvider
	hooks    []PreToolUse
	handoffs map[string]*Agent
}

// Option sets one thing of an agent.
type Option func(*Agent)

// New returns an agent.
func New(model Model, options ...Option) *Agent {
	made := &Agent{model: model, tools: map[string]tool.BaseTool{}, handoffs: map[string]*Agent{}}
	for _, set := range options {
		set(made)
	}
	return made
}

// WithTools gives the agent tools.
func WithTools(tools ...tool.BaseTool) Option {
	return func(a *Agent) {
		for _, one := range tools {
			a.tools[one.Info().Name] = one
		}
	}
}

// WithToolsets gives the agent the tools of sets.
func WithToolsets(sets ...tool.Toolset) Option {
	return func(a *Agent) {
		for _, set := range sets {
			WithTools(set.Tools()...)(a)
		}
	}
}

// WithConfirmationProvider sets who is asked.
func WithConfirmationProvider(provider ConfirmationProvider) Option {
	return func(a *Agent) { a.provider = provider }
}

// WithHooks adds hooks that run before confirmation.
func WithHooks(hooks ...PreToolUse) Option {
	return func(a *Agent) { a.hooks = append(a.hooks, hooks...) }
}

// WithHandoff lets the model hand over by calling `transfer_to_` and this name.
func WithHandoff(name string, to *Agent) Option {
	return func(a *Agent) { a.handoffs[name] = to }
}

// ChatStream runs a chat; its events end with EventComplete.
func (a *Agent) ChatStream(ctx context.Context) <-chan types.ChatEvent {
	events := make(chan types.ChatEvent)
	go func() {
		defer close(events)
		results := a.chat(ctx, events)
		events <- types.ChatEvent{Type: types.EventComplete, Content: strings.Join(results, "\n")}
	}()
	return events
}

// Chat runs a chat and returns what the last calls returned, one a line.
func (a *Agent) Chat(ctx context.Context) string {
	last := ""
	for event := range a.ChatStream(ctx) {
		last = event.Content
	}
	return last
}

func (a *Agent) chat(ctx context.Context, events chan<- types.ChatEvent) []string {
	acting, results := a, []string(nil)
	for {
		calls := acting.model(results)
		if len(calls) == 0 {
			return results
		}
		if to, found := acting.handoffs[strings.TrimPrefix(calls[0].Name, "transfer_to_")]; found {
			acting, results = to, nil
			continue
		}
		results = make([]string, len(calls))
		var running sync.WaitGroup
		for i, call := range calls {
			running.Add(1)
			go func() {
				defer running.Done()
				results[i] = acting.run(ctx, call, events)
			}()
		}
		running.Wait()
	}
}

// run returns what the model is told of one call.
func (a *Agent) run(ctx context.Context, call tool.Call, events chan<- types.ChatEvent) string {
	called, found := a.tools[call.Name]
	if !found {
		return "no such tool"
	}
	for _, hook := range a.hooks {
		input, denied := hook(ctx, call)
		if denied != "" {
			return denied
		}
		call.Input = input
	}
	ask := func(hint string, payload any) error {
		req := tool.ConfirmationRequest{
			ToolCallID: call.ID, ToolName: call.Name, Input: call.Input, Hint: hint, Payload: payload,
		}
		events <- types.ChatEvent{Type: types.EventConfirmationRequired, ConfirmationRequest: &req}
		approved, err := a.provider(ctx, req)
		if err == nil && !approved {
			err = tool.ErrConfirmationRejected
		}
		return err
	}
	if a.provider != nil {
		if called.Info().RequireConfirmation {
			if err := ask("", nil); err != nil {
				return told(err)
			}
		}
		ctx = tool.WithAsking(ctx, ask)
	}
	response, err := called.Run(ctx, call)
	if err != nil {
		return told(err)
	}
	return response.Content
}

func told(err error) string {
	if errors.Is(err, tool.ErrConfirmationRejected) {
		return "rejected by user"
	}
	return "error: " + err.Error()
}
