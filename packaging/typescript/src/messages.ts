/** The messages, as the gateway's OpenAPI document describes them. */

import type { components } from "./openapi.js";

type Schemas = components["schemas"];

/** A request, as it is submitted. */
export type ApprovalRequest = Schemas["ApprovalRequest"];
/** How a request stands. */
export type State = Schemas["State"];
/** The one terminal answer to a request. */
export type Decision = Schemas["Decision"];
/** What became of an approved action. */
export type Execution = Schemas["Report"]["execution"];

/** What would run; its id, agent and digest are the client's to add. */
export type Call = Omit<ApprovalRequest, "id" | "agent" | "digest">;
