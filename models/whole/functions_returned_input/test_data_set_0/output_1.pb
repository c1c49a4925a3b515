
BhalfJh>@‚@¢8
A=