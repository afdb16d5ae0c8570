import { render } from 'preact';

render(<p>zabra</p>, document.body);
