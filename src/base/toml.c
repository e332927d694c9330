typedef int x;
