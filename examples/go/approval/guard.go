package approval

import (
	"context"
	"fmt"
	"log"

	"approvals.example/agent/tool"
)

// Guard wraps a tool: it is marked, and runs only after Confirm approved this very call, also
// where its agent has no provider.
func (c *Client) Guard(inner tool.BaseTool) tool.BaseTool {
	c.guarded.Store(inner.Info().Name, true)
	return guard{inner, c}
}

// note keeps that this very call of a guarded tool may run; a question from inside it is another.
func (c *Client) note(req tool.ConfirmationRequest, id string) {
	if _, found := c.guarded.Load(req.ToolName); found && req.Hint == "" && req.Payload == nil {
		c.approved.Store(tool.Call{ID: req.ToolCallID, Name: req.ToolName, Input: req.Input}, id)
	}
}

type guard struct {
	tool.BaseTool
	client *Client
}

func (g guard) Info() tool.Info {
	info := g.BaseTool.Info()
	info.RequireConfirmation = true
	return info
}

func (g guard) Run(ctx context.Context, call tool.Call) (tool.Response, error) {
	id, found := g.client.approved.LoadAndDelete(call)
	if !found {
		return tool.Response{}, fmt.Errorf("%s was not approved: its agent has no confirmation provider", call.Name)
	}
	response, err := g.BaseTool.Run(ctx, call)
	became := "succeeded"
	if err != nil || response.IsError {
		became = "failed"
	}
	report := map[string]any{"report": map[string]string{"execution": became}}
	if failed := g.client.call(ctx, "POST", "/"+id.(string)+"/report", report, new(state)); failed != nil {
		log.Printf("not reported: %v", failed)
	}
	return response, err
}
