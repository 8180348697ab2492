/** Larger files are refused. */
export const LARGEST_DOCKERFILE = 512 * 1024
