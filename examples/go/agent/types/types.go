// Package types is a stand-in for the SDK's package of that name: the events of a stream.
package types

import "approvals.example/agent/tool"

// EventType says what an event of a stream is.
type EventType string

// The events that the document names.
const (
	EventConfirmationRequired EventType = "confirmation_required"
	EventContentDelta         EventType = "content_delta"
	EventComplete             EventType = "complete"
)

// ChatEvent is one event of a stream.
type ChatEvent struct {
	Type                EventType
	Content             string
	ConfirmationRequest *tool.ConfirmationRequest
}
