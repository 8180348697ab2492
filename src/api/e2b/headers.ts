/** Headers and the port by which E2B's SDKs reach into a sandbox. */

/** The port of envd, the daemon of E2B's sandboxes: requests to it are for the data plane. */
export const ENVD_PORT = 49983
/** Names the sandbox, where all sandboxes share one origin. */
export const SANDBOX_ID_HEADER = 'e2b-sandbox-id'
/** The port inside; without it, envd's. */
export const SANDBOX_PORT_HEADER = 'e2b-sandbox-port'
/** Opens a sandbox's processes and files. */
export const ACCESS_TOKEN_HEADER = 'x-access-token'
/** Opens a sandbox's private ports. */
export const TRAFFIC_TOKEN_HEADER = 'e2b-traffic-access-token'
