/** Of snapshots that hold a project for its next run. They come and go by themselves. */
export const PREPARED_LABEL = 'agentpod/prepared'
