
BxJP6Z?€±ÔA’¸a<½AM=