// Package tool is a stand-in for the SDK's package of that name: as much of it as its document on
// tool confirmation describes, so that the provider compiles and is tested without the SDK.
package tool

import (
	"context"
	"errors"
)

// ErrConfirmationRejected is what a tool gets that asked from inside and was told no.
var ErrConfirmationRejected = errors.New("confirmation rejected")

// ConfirmationRequest is what a provider is asked. Hint and Payload are a tool's own words where
// it asks from inside.
type ConfirmationRequest struct {
	ToolCallID string
	ToolName   string
	Input      string
	Hint       string
	Payload    any
}

// Call is one call of a tool by the model. Input is JSON.
type Call struct {
	ID    string
	Name  string
	Input string
}

// Response is what a tool gives back.
type Response struct {
	Content string
	IsError bool
}

// NewTextResponse returns a plain text.
func NewTextResponse(text string) Response { return Response{Content: text} }

// Info describes a tool to the model.
type Info struct {
	Name                string
	Description         string
	Parameters          any
	RequireConfirmation bool
}

// NewInfo describes a tool whose parameters are those of a struct.
func NewInfo(name, description string, parameters any) Info {
	return Info{Name: name, Description: description, Parameters: parameters}
}

// BaseTool is a tool.
type BaseTool interface {
	Info() Info
	Run(ctx context.Context, call Call) (Response, error)
}

// Toolset is several tools under one name.
type Toolset struct {
	Name  string
	tools []BaseTool
}

// NewToolset returns a toolset.
func NewToolset(name string, tools ...BaseTool) Toolset { return Toolset{name, tools} }

// Tools returns the tools of the set.
func (t Toolset) Tools() []BaseTool { return t.tools }

type marked struct{ BaseTool }

func (m marked) Info() Info {
	info := m.BaseTool.Info()
	info.RequireConfirmation = true
	return info
}

// WithConfirmation returns a copy of a toolset all of whose tools need confirmation.
func WithConfirmation(set Toolset) Toolset {
	copied := Toolset{Name: set.Name}
	for _, one := range set.tools {
		copied.tools = append(copied.tools, marked{one})
	}
	return copied
}

type asking struct{}

// WithAsking returns a context in which RequestConfirmation asks. Only the agent calls it.
func WithAsking(ctx context.Context, ask func(hint string, payload any) error) context.Context {
	return context.WithValue(ctx, asking{}, ask)
}

// RequestConfirmation asks from inside a tool and waits. Without a provider it returns nil at once.
func RequestConfirmation(ctx context.Context, hint string, payload any) error {
	if ask, ok := ctx.Value(asking{}).(func(string, any) error); ok {
		return ask(hint, payload)
	}
	return nil
}
