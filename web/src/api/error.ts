// What goes wrong, as the server tells it or as it is noticed here.

import type { Problem } from './types';

/** An answer that is a problem. `outcome` says whether a write may have been done. */
export class ApiError extends Error {
  readonly code: string;
  readonly status: number;
  readonly outcome: Problem['outcome'];
  readonly problem: Partial<Problem>;

  constructor(problem: Partial<Problem>) {
    super(problem.detail || problem.title || 'no answer');
    this.name = 'ApiError';
    this.code = problem.code ?? 'ConnectionLoss';
    this.status = problem.status ?? 0;
    this.outcome = problem.outcome ?? 'unknown';
    this.problem = problem;
  }
}

/** No answer came: the outcome of a write is unknown. */
export function connectionLoss(write: boolean): ApiError {
  return new ApiError({
    code: 'ConnectionLoss' as Problem['code'],
    detail: 'the connection to the replica was lost',
    outcome: write ? 'unknown' : 'not-applied',
  });
}

/** More than a replica takes in one message: it was not even sent. */
export function tooLarge(max: number): ApiError {
  return new ApiError({
    code: 'TooLarge',
    detail: `the request is larger than the ${max} bytes that a replica takes (maxMessageBytes)`,
    outcome: 'not-applied',
  });
}
