import { navigate, route, urlOf } from '../../app/router';

/** The same view with another range, replica or search. */
export function change(name: string, value: string): void {
  const query = { ...Object.fromEntries(route.peek().query), [name]: value };
  navigate(urlOf('metrics', '/', query), true);
}
