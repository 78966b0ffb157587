// The chart library with its styles, in a chunk of its own.
import 'uplot/dist/uPlot.min.css';
export { default } from 'uplot';
