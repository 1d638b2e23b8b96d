/** How a group calls the machine of a member. */
import type { Request } from '../request.ts';

/** `/address`, as Kafka writes it. */
export function clientHostOf(request: Request): string {
  return `/${request.connection.peer.remoteAddress.replace(/^::ffff:/, '')}`;
}
