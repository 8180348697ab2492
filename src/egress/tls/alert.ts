/**
 * A fatal TLS alert in plain text, as servers send it before keys are negotiated. Ends a refused TLS
 * connection.
 */
export const ALERTS = { accessDenied: 49, decodeError: 50, unrecognizedName: 112 } as const
export type Alert = keyof typeof ALERTS

const ALERT_RECORD = 21
const FATAL = 2

export function fatalAlert(alert: Alert): Buffer {
  return Buffer.from([ALERT_RECORD, 3, 3, 0, 2, FATAL, ALERTS[alert]])
}
