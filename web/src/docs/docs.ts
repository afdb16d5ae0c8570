// A page of the documentation: nothing but its looks, in the theme of the dashboard.

import './docs.css';
import { followTheme } from '../app/theme';

followTheme();
