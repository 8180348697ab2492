/** What a program that runs a server inside itself imports. */
export {
  type ProviderFactory,
  type ProviderParts,
  type RunningServer,
  type ServerOptions,
  startServer,
} from '../main/server.ts'
