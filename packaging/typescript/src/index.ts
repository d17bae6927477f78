export { canonical, NotJson, type Json } from "./canonical.js";
export { Client, NotApproved, Unverified, type Options, type Outcome } from "./client.js";
export { digestOf, isSigned } from "./digest.js";
export { Refused, Unreachable } from "./http.js";
export type { ApprovalRequest, Call, Decision, Execution, State } from "./messages.js";
